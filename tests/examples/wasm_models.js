// Part of the page of check_wasm.py, behind `const MODELS`: runs every module on the runs of its case, one after the other
// on one context, and writes the largest difference from what must come out, relative to the largest value.
'use strict';

const bytesOf = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));

// Functions of libm that are no instructions: those of JavaScript, which compute in double.
function importsOf(module) {
  const functions = {};
  for (const {name} of WebAssembly.Module.imports(module)) {
    const own = Math[name.replace(/f$/, '')];
    if (own === undefined) throw new Error(`no ${name}`);
    functions[name] = own;
  }
  return {env: functions};
}

function slotOf(api, find, name) {
  const at = api.name_at();
  new Uint8Array(api.memory.buffer, at, 64).set(new TextEncoder().encode(`${name}\0`));
  const slot = find(at);
  if (slot < 0) throw new Error(`nothing is called ${name}`);
  return slot;
}

function difference(api, slot, wanted) {
  const found = new Float32Array(api.memory.buffer, api.output_at(slot), wanted.length);
  const largest = Math.max(...wanted.map(Math.abs)), worst = Math.max(...wanted.map((w, i) => Math.abs(w - found[i])));
  return worst / largest;
}

function test(model) {
  const module = new WebAssembly.Module(bytesOf(model.wasm));
  const api = new WebAssembly.Instance(module, importsOf(module)).exports;
  const slots = (find, values) => Object.entries(values).map(([name, text]) => [slotOf(api, find, name), bytesOf(text)]);
  if (api.start() !== 0) throw new Error('no context');
  const inputs = slots(api.input_slot, model.inputs), outputs = slots(api.output_slot, model.outputs);
  const runs = inputs[0][1].length / api.input_bytes(inputs[0][0]);
  let worst = 0;
  for (let run = 0; run < runs; run++) {
    for (const [slot, bytes] of inputs) {
      const n = api.input_bytes(slot);
      new Uint8Array(api.memory.buffer, api.input_at(slot), n).set(bytes.subarray(run * n, (run + 1) * n));
    }
    if (api.run() !== 0) throw new Error(`run ${run} fails`);
    for (const [slot, bytes] of outputs) {
      const n = api.output_bytes(slot), error = difference(api, slot, new Float32Array(bytes.buffer, run * n, n / 4));
      worst = Number.isNaN(error) ? Infinity : Math.max(worst, error);
    }
  }
  return {runs, worst: String(worst)};
}

const result = document.createElement('script');
result.type = 'application/json';
result.id = 'result';
const results = {};
for (const [name, model] of Object.entries(MODELS)) {
  try {
    results[name] = test(model);
  } catch (error) {
    results[name] = {error: error.message};
  }
}
result.textContent = JSON.stringify(results);
document.body.append(result);
