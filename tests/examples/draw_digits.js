// Put at the end of the demo page by check_web.py: draws digits by pointer events, as a hand would, and writes what the
// page then shows and what went in and out of the network as JSON into the page.
'use strict';

// Strokes in a square of 100: [x, y] points that are joined by lines. The arcs are [centre x, y, radii, from, to] in
// degrees, clockwise from the right.
function arc(x, y, rx, ry, from, to) {
  return Array.from({length: 25}, (_, i) => {
    const angle = (from + (to - from) * i / 24) * Math.PI / 180;
    return [x + rx * Math.cos(angle), y + ry * Math.sin(angle)];
  });
}

const DRAWINGS = [
  [0, [arc(50, 50, 20, 32, -90, 270)]],
  [1, [[[38, 30], [52, 16], [52, 84]]]],
  [2, [[...arc(50, 34, 20, 18, -160, 40), [32, 80], [72, 80]]]],
  [3, [[...arc(48, 33, 18, 16, -150, 90), ...arc(48, 66, 21, 17, -90, 150)]]],
  [4, [[[56, 15], [28, 58], [74, 58]], [[58, 36], [58, 86]]]],
  [5, [[[70, 16], [38, 16], [36, 46], ...arc(50, 60, 20, 20, -120, 140)]]],
  [6, [[[60, 14], ...arc(48, 64, 20, 20, -160, 200)]]],
  [8, [[...arc(50, 33, 16, 16, 90, 450), ...arc(50, 67, 19, 18, -90, 270)]]],
  [9, [[...arc(50, 36, 19, 19, 0, -360), [69, 36], [62, 86]]]],
  [7, [[[28, 18], [70, 18], [44, 86]]]],
];

function point(type, [x, y]) {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent(type, {
    pointerId: 1, bubbles: true, clientX: box.left + box.width * x / 100, clientY: box.top + box.height * y / 100,
  }));
}

function draw(digit, strokes) {
  find('clear').click();
  const emptied = find('best').textContent;
  for (const points of strokes) {
    point('pointerdown', points[0]);
    points.slice(1).forEach(p => point('pointermove', p));
    point('pointerup', points[points.length - 1]);
  }
  return {
    digit, emptied, hint: getComputedStyle(find('hint')).display, shown: find('best').textContent, marked: document.querySelector('#bars .best').innerText,
    image: [...network.image], logits: [...network.logits], probs: [...network.probs],
    time: find('time').textContent,
  };
}

async function test() {
  while (network === null && find('trouble').hidden) await new Promise(done => setTimeout(done, 10));
  const result = document.createElement('script');
  result.type = 'application/json';
  result.id = 'result';
  result.textContent = JSON.stringify(network === null ? find('trouble').textContent :
    {size: find('module').textContent, imports: find('imports').textContent,
      drawn: DRAWINGS.map(([digit, strokes]) => draw(digit, strokes))});
  document.body.append(result);
}
test();
