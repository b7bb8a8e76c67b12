// Lab 6: the figure's cursor and the drawing's time go together, without asking the server.

const parts = () => {
  const lab = document.querySelector(".rw-congestion");
  const plot = lab?.querySelector(".rw-congestion-figure .js-plotly-plot");
  const stage = lab?.querySelector(".rwc")?.railweaveStage;
  return plot?._fullLayout?.xaxis && stage ? { plot, stage } : null;
};

const cursorOf = (plot) => {
  let cursor = plot.querySelector(".rw-cursor");
  if (!cursor) {
    cursor = document.createElement("div");
    cursor.className = "rw-cursor";
    cursor.setAttribute("aria-hidden", "true");
    plot.style.position = "relative";
    plot.append(cursor);
    // Pointing at a time in the figure shows that time in the drawing.
    plot.on("plotly_click", (event) => {
      const now = parts();
      if (now) now.stage.seek(event.points[0].x / 1e3);
    });
  }
  return cursor;
};

let drawn = "";

const follow = () => {
  const found = parts();
  if (found) {
    const { plot, stage } = found;
    const { xaxis, _size } = plot._fullLayout;
    const cursor = cursorOf(plot);
    const x = xaxis.d2p(stage.clock.time * 1e3);
    const inside = x >= 0 && x <= xaxis._length && stage.clock.duration > 0;
    const style =
      `display:${inside ? "block" : "none"};left:${(_size.l + x).toFixed(1)}px;top:${_size.t}px;height:${_size.h}px`;
    if (style !== drawn || !cursor.hasAttribute("style")) cursor.style.cssText = drawn = style;
  }
  // Looked at often only while time runs: nothing else moves it but the visitor's hand.
  if (found?.stage.clock.playing) requestAnimationFrame(follow);
  else setTimeout(follow, 100);
};
follow();
