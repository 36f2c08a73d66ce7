// The page: takes strokes, makes of them an image like those that the network was trained with, shows what it says.
// WASM is the module in base64, put before this text by the Makefile.
'use strict';

const SIDE = 8, FINE = 64, CLASSES = 10;   // cells of an image; pixels of the drawing of which they are averages
const INK = 0.305;                         // share of ink in the training images, whatever the digit
const find = id => document.getElementById(id);
const canvas = find('canvas'), pen = canvas.getContext('2d'), seen = find('seen').getContext('2d');
const fine = new OffscreenCanvas(FINE, FINE).getContext('2d', {willReadFrequently: true});
let strokes = [], current = null, network = null;

async function load() {
  const bytes = Uint8Array.from(atob(WASM), c => c.charCodeAt(0));
  const {module, instance} = await WebAssembly.instantiate(bytes);
  const api = instance.exports, view = (at, n) => new Float32Array(api.memory.buffer, at, n);
  network = {
    classify: api.classify,
    image: view(api.image_at(), SIDE * SIDE),
    logits: view(api.logits_at(), CLASSES),
    probs: view(api.probs_at(), CLASSES),
  };
  const kilobytes = `${(bytes.length / 1024).toFixed(1)} KB`;
  find('size').textContent = find('module').textContent = kilobytes;
  find('imports').textContent = WebAssembly.Module.imports(module).length || 'none';
  run(1);
}

function run(times) {
  const status = network.classify(times);
  if (status !== 0) throw new Error(`the network says ${status}`);
}

// --- from strokes to an image -----

function boxOf(points) {
  const xs = points.map(p => p.x), ys = points.map(p => p.y);
  const left = Math.min(...xs), top = Math.min(...ys);
  return {left, top, width: Math.max(...xs) - left, height: Math.max(...ys) - top};
}

function trace(context, at) {
  context.lineCap = context.lineJoin = 'round';
  for (const stroke of strokes) {
    context.beginPath();
    stroke.forEach((p, i) => i === 0 ? context.moveTo(...at(p)) : context.lineTo(...at(p)));
    if (stroke.length === 1) context.lineTo(...at(stroke[0]));
    context.stroke();
  }
}

// Centred, all rows and at most six of the eight columns, in lines of this width (of FINE). The cells' shares of ink.
function cellsWith(lineWidth) {
  const box = boxOf(strokes.flat());
  const scale = Math.min((FINE - lineWidth) / Math.max(box.height, 1e-3),
    (FINE * 6 / 8 - lineWidth) / Math.max(box.width, 1e-3), 4 * FINE);
  const x0 = (FINE - box.width * scale) / 2, y0 = (FINE - box.height * scale) / 2;
  fine.clearRect(0, 0, FINE, FINE);
  fine.lineWidth = lineWidth;
  trace(fine, p => [x0 + (p.x - box.left) * scale, y0 + (p.y - box.top) * scale]);
  const alpha = fine.getImageData(0, 0, FINE, FINE).data, cells = new Float32Array(SIDE * SIDE), cell = FINE / SIDE;
  for (let y = 0; y < FINE; y++)
    for (let x = 0; x < FINE; x++)
      cells[Math.floor(y / cell) * SIDE + Math.floor(x / cell)] += alpha[(y * FINE + x) * 4 + 3] / 255 / cell / cell;
  return cells;
}

// The training images were made of pens of one width, and have all about the same share of ink.
function makeImage() {
  let low = 5, high = 18;
  for (let i = 0; i < 6; i++) {
    const middle = (low + high) / 2;
    const ink = cellsWith(middle).reduce((sum, c) => sum + c, 0) / (SIDE * SIDE);
    if (ink < INK) low = middle; else high = middle;
  }
  return cellsWith(low).map(c => Math.round(c * 16) / 16); // of the 17 levels that they have
}

// --- what is shown -----

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

function drawStrokes() {
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.strokeStyle = colour('--text');
  pen.lineWidth = canvas.width / 16;
  trace(pen, p => [p.x * canvas.width, p.y * canvas.height]);
  find('hint').hidden = strokes.length > 0;
}

function drawSeen(image) {
  const pixels = seen.createImageData(SIDE, SIDE), dark = matchMedia('(prefers-color-scheme: dark)').matches;
  image.forEach((v, i) => pixels.data.set([...Array(3).fill(255 * (dark ? v : 1 - v)), 255], 4 * i));
  seen.putImageData(pixels, 0, 0);
}

function showBars(probs) {
  const best = probs === null ? -1 : probs.indexOf(Math.max(...probs));
  find('best').textContent = best < 0 ? '–' : best;
  [...find('bars').children].forEach((bar, i) => {
    const percent = probs === null ? 0 : 100 * probs[i];
    bar.classList.toggle('best', i === best);
    bar.querySelector('.fill').style.width = `${percent}%`;
    bar.querySelector('.percent').textContent = probs === null ? '' : `${percent.toFixed(1)} %`;
  });
}

// Clocks of browsers are coarse, on purpose: the time of one run is that of many.
function timeRuns() {
  let times = 128, elapsed = 0;
  for (; elapsed < 4 && times < 8192; times *= 2) {
    const start = performance.now();
    run(times);
    elapsed = performance.now() - start;
  }
  find('time').textContent = elapsed > 0 ? `${(elapsed * 1000 / (times / 2)).toFixed(1)} µs` : '–';
}

function update() {
  drawStrokes();
  if (strokes.length === 0) {
    seen.clearRect(0, 0, SIDE, SIDE);
    find('time').textContent = '–';
    showBars(null);
  } else if (network !== null) {
    network.image.set(makeImage());
    run(1);
    drawSeen(network.image);
    showBars([...network.probs]);
  }
}

// --- pointers -----

function pointOf(event) {
  const box = canvas.getBoundingClientRect();
  return {x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height};
}

canvas.addEventListener('pointerdown', event => {
  if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
  current = [pointOf(event)];
  strokes.push(current);
  update();
});
canvas.addEventListener('pointermove', event => {
  if (current === null) return;
  const all = event.getCoalescedEvents?.() ?? [];
  current.push(...(all.length > 0 ? all : [event]).map(pointOf));
  update();
});
for (const type of ['pointerup', 'pointercancel'])
  canvas.addEventListener(type, () => {
    if (current !== null && network !== null) timeRuns();
    current = null;
  });
find('clear').addEventListener('click', () => {
  strokes = [];
  update();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', update);

for (let i = 0; i < CLASSES; i++) {
  const bar = document.createElement('li');
  bar.innerHTML = `<span>${i}</span><span class="track"><span class="fill"></span></span><span class="percent"></span>`;
  find('bars').append(bar);
}
showBars(null);
load().then(update).catch(error => {
  find('trouble').textContent = `This browser cannot run the module: ${error.message}`;
  find('trouble').hidden = false;
});
