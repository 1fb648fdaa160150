// Pointers on the viewer's canvas: drag, pinch, wheel, and the divider of Swipe.

import { MOST_ZOOM, centreOf, pixelAt, zoomOf } from "./canvas.js";
import { clamp } from "./pixels.js";

const GRIP = 12; // CSS pixels beside the divider in which a mouse takes hold of it

export function zoomBy(canvas, pair, view, factor, set, anchor = null) {
  const before = zoomOf(canvas, pair, view);
  const after = clamp(factor > 1 ? Math.max(before * factor, 1) : before * factor, 0.05, MOST_ZOOM);
  const zoom = after >= 1 ? Math.round(after) : after;
  const centre = centreOf(pair, view);
  // the pixel under the pointer stays under it
  const c = anchor ? centre.map((at, k) => anchor[k] + ((at - anchor[k]) * before) / zoom) : centre;
  set({ z: zoom, c });
}

// `down` holds the pointers that are pressed, by their ids, from one drawing to the next.
export function pointing(canvas, pair, view, act, setHover, down) {
  const box = canvas.current;
  const dividerAt = () => (box.clientWidth * view.s) / 100;
  const apart = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);
  const pinch = (own, other, now) => {
    // rounded to whole zooms only at the end: a slow pinch would never reach the next one
    const wanted = (own.zoom * apart(now, other)) / own.distance;
    zoomBy(box, pair, view, wanted / zoomOf(box, pair, view), act.set, pixelAt(box, pair, view, other.x, other.y));
  };
  const drag = (own, now) => {
    const zoom = zoomOf(box, pair, view);
    const [x, y] = centreOf(pair, view);
    act.set({ c: [x - (now.x - own.x) / zoom, y - (now.y - own.y) / zoom], z: zoom });
  };
  const release = (event) => down.delete(event.pointerId);
  return {
    onPointerDown: (event) => {
      const own = { x: event.clientX, y: event.clientY };
      const near = event.pointerType === "touch" || event.shiftKey || Math.abs(event.offsetX - dividerAt()) <= GRIP;
      own.divides = view.m === "swipe" && near;
      for (const other of down.values()) {
        const begun = { distance: Math.max(apart(own, other), 1), zoom: zoomOf(box, pair, view) };
        Object.assign(own, begun);
        Object.assign(other, begun);
      }
      if (event.button === 0) down.set(event.pointerId, own);
      box.setPointerCapture(event.pointerId);
    },
    onPointerMove: (event) => {
      const own = down.get(event.pointerId);
      const now = { x: event.clientX, y: event.clientY };
      if (own) {
        const other = [...down.values()].find((each) => each !== own);
        if (other) pinch(own, other, now);
        else if (own.divides) act.set({ s: clamp(Math.round((100 * event.offsetX) / box.clientWidth), 0, 100) });
        else drag(own, now);
        Object.assign(own, now);
      }
      setHover(pixelAt(box, pair, view, event.clientX, event.clientY));
    },
    onPointerUp: release,
    onPointerCancel: release,
    onPointerLeave: () => setHover(null),
    onWheel: (event) => {
      event.preventDefault();
      const at = pixelAt(box, pair, view, event.clientX, event.clientY);
      zoomBy(box, pair, view, event.deltaY < 0 ? 1.25 : 0.8, act.set, at);
    },
  };
}
