# SPDX-License-Identifier: Apache-2.0
"""The networks whose operators are in the corpus of the sweep: their names, and how each is built with random
weights. Nothing is fetched: configurations stand here or in torchvision, timm and transformers."""

IMAGE = (3, 224, 224)

# torchvision.models.get_model(name)
TORCHVISION = {
    "image": "alexnet vgg16_bn squeezenet1_1 resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 "
    "googlenet inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 shufflenet_v2_x1_0 "
    "efficientnet_b0 efficientnet_v2_s regnet_y_400mf regnet_x_3_2gf convnext_tiny vit_b_16 vit_l_32 swin_t "
    "swin_v2_t maxvit_t".split(),
    "segmentation": "deeplabv3_resnet50 deeplabv3_mobilenet_v3_large fcn_resnet50 "
    "lraspp_mobilenet_v3_large".split(),
    "video": "r3d_18 mc3_18 r2plus1d_18 s3d mvit_v1_b swin3d_t".split(),
    "flow": ["raft_small"],
    "detection": ["ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn", "fcos_resnet50_fpn"],
}

# timm.create_model(name)
TIMM = (
    "tf_efficientnet_lite0 ghostnet_100 mobilenetv4_conv_small fastvit_t8 mobileone_s0 repvgg_a0 "
    "resnest14d skresnet18 res2net50_26w_4s dpn68 hrnet_w18_small dla34 cspresnet50 cspdarknet53 "
    "vovnet39a darknet53 nfnet_f0 convmixer_768_32 convnextv2_atto deit_tiny_patch16_224 mixer_s16_224 "
    "gmlp_s16_224 resmlp_12_224 poolformer_s12 coat_tiny crossvit_tiny_240 levit_128 pit_ti_224 "
    "mobilevit_s edgenext_x_small efficientformer_l1 xcit_nano_12_p16_224 twins_svt_small volo_d1_224 "
    "tnt_s_patch16_224 beit_base_patch16_224 davit_tiny focalnet_tiny_srf inception_next_tiny"
).split()

# transformers: class of the configuration, class of the model, sizes that differ from the defaults, kind
TEXT = dict(hidden_size=768, num_attention_heads=12, num_hidden_layers=2)
TRANSFORMERS = {
    "bert": ("BertConfig", "BertModel", TEXT, "text"),
    "distilbert": ("DistilBertConfig", "DistilBertModel", dict(n_layers=2), "text"),
    "roberta": ("RobertaConfig", "RobertaModel", TEXT, "text"),
    "electra": ("ElectraConfig", "ElectraModel", dict(num_hidden_layers=2), "text"),
    "albert": ("AlbertConfig", "AlbertModel", dict(TEXT, intermediate_size=3072), "text"),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Model", dict(TEXT, intermediate_size=3072), "text"),
    "mobilebert": ("MobileBertConfig", "MobileBertModel", dict(num_hidden_layers=2), "text"),
    "t5": ("T5Config", "T5EncoderModel", dict(num_layers=2), "text"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", dict(n_layer=2), "text"),
    "opt": ("OPTConfig", "OPTForCausalLM", dict(TEXT, ffn_dim=3072), "text"),
    "llama": (
        "LlamaConfig",
        "LlamaForCausalLM",
        dict(
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=1,
            num_attention_heads=32,
            num_key_value_heads=8,
            vocab_size=32000,
        ),
        "text",
    ),
    "qwen2": (
        "Qwen2Config",
        "Qwen2ForCausalLM",
        dict(
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=1,
            num_attention_heads=14,
            num_key_value_heads=2,
            vocab_size=32000,
        ),
        "text",
    ),
    "gemma2": (
        "Gemma2Config",
        "Gemma2ForCausalLM",
        dict(
            hidden_size=1152,
            intermediate_size=6912,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=256,
            vocab_size=32000,
        ),
        "text",
    ),
    "phi3": (
        "Phi3Config",
        "Phi3ForCausalLM",
        dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=1, vocab_size=32000, pad_token_id=0),
        "text",
    ),
    "mixtral": (
        "MixtralConfig",
        "MixtralForCausalLM",
        dict(
            hidden_size=1024,
            intermediate_size=3584,
            num_hidden_layers=1,
            num_attention_heads=16,
            num_key_value_heads=4,
            num_local_experts=8,
            vocab_size=32000,
        ),
        "text",
    ),
    "mamba": ("MambaConfig", "MambaModel", dict(num_hidden_layers=1), "text"),
    "segformer": ("SegformerConfig", "SegformerModel", {}, "image"),
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModel", dict(num_hidden_layers=2), "image"),
    "dinov2": ("Dinov2Config", "Dinov2Model", dict(num_hidden_layers=2), "image"),
    "dpt": ("DPTConfig", "DPTModel", dict(num_hidden_layers=2), "image384"),
    "yolos": ("YolosConfig", "YolosModel", dict(num_hidden_layers=2, image_size=[224, 224]), "image"),
    "whisper_tiny": (
        "WhisperConfig",
        "WhisperModel",
        dict(
            d_model=384,
            encoder_attention_heads=6,
            decoder_attention_heads=6,
            encoder_ffn_dim=1536,
            decoder_ffn_dim=1536,
            encoder_layers=2,
            decoder_layers=2,
        ),
        "whisper",
    ),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2Model", dict(num_hidden_layers=1), "sound"),
    "hubert": ("HubertConfig", "HubertModel", dict(num_hidden_layers=1), "sound"),
}


def tv(kind, name):
    import torch
    import torchvision

    options = dict(weights=None)
    if kind in ("segmentation", "detection"):
        options["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False
    model = torchvision.models.get_model(name, **options).eval()
    if kind == "detection":  # what comes before boxes are chosen: the sizes behind that depend on values
        return Pyramid(model), lambda batch: (torch.zeros(batch, 3, 320, 320),)
    if kind == "flow":
        return model, lambda batch: (torch.zeros(batch, 3, 256, 320), torch.zeros(batch, 3, 256, 320))
    if kind == "video":
        return model, lambda batch: (
            torch.zeros(batch, 3, 16, 112 if "18" in name else 224, 112 if "18" in name else 224),
        )
    side = {"inception_v3": 299, "swin_v2_t": 256}.get(name, 224)
    return model, lambda batch: (torch.zeros(batch, 3, side, side),)


def Pyramid(model):
    """The backbone of a detector and its heads, without the choice of boxes."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = model.backbone, model.head

        def forward(self, x):
            return self.head(list(self.backbone(x).values()))

    return Net().eval()


def image_model(name):
    import timm
    import torch

    model = timm.create_model(name, pretrained=False).eval()
    size = model.default_cfg["input_size"] if hasattr(model, "default_cfg") else IMAGE
    return model, lambda batch: (torch.zeros(batch, *size),)


def text_inputs(batch):
    import torch

    return (torch.zeros(batch, 128, dtype=torch.int64),)


def transformer(name):
    import torch
    import transformers

    config, model, sizes, kind = TRANSFORMERS[name]
    settings = getattr(transformers, config)(**sizes)
    if hasattr(settings, "use_cache"):
        settings.use_cache = False
    made = getattr(transformers, model)(settings).eval()
    makers = {
        "text": text_inputs,
        "image": lambda batch: (torch.zeros(batch, 3, 224, 224),),
        "image384": lambda batch: (torch.zeros(batch, 3, 384, 384),),
        "sound": lambda batch: (torch.zeros(batch, 16000),),
    }
    if kind == "whisper":
        return made, lambda batch: (
            torch.zeros(batch, 80, 3000),
            None,
            torch.zeros(batch, 32, dtype=torch.int64),
        )
    return made, makers[kind]


def own(name):
    import torch

    from sweeps import nets

    model, shape = nets.OWN[name]
    return model().eval(), lambda batch: (torch.zeros(batch, *shape),)


def builders():
    """name -> function without arguments that gives (module, function of the batch that gives its inputs)."""
    found = {}
    for kind, names in TORCHVISION.items():
        for name in names:
            found[name] = lambda kind=kind, name=name: tv(kind, name)
    for name in TIMM:
        found[name] = lambda name=name: image_model(name)
    for name in TRANSFORMERS:
        found[name] = lambda name=name: transformer(name)
    from sweeps import nets

    for name in nets.OWN:
        found[name] = lambda name=name: own(name)
    return found
