// Where the two hosts' parts stand, wide or tall, and where packets are between them.

// x, y, width, height of host 0's parts; host 1 is its mirror image
const WIDE = {
  width: 900, height: 300, tall: false, frame: [6, 6, 330, 288], title: [20, 32],
  parts: {
    application: [18, 48, 92, 234], "queue pair": [132, 48, 112, 66],
    "completion queue": [132, 132, 112, 66], memory: [132, 216, 112, 66], NIC: [266, 48, 60, 234],
  },
  fabric: [380, 106, 140, 118], wire: [326, 165, 574, 165],
};
const TALL = {
  width: 340, height: 560, tall: true, frame: [3, 3, 334, 212], title: [14, 26],
  parts: {
    application: [12, 36, 316, 36], "queue pair": [12, 92, 98, 58],
    "completion queue": [121, 92, 98, 58], memory: [230, 92, 98, 58], NIC: [12, 168, 316, 38],
  },
  fabric: [80, 245, 180, 70], wire: [170, 206, 170, 354],
};

const mirrored = (form, [x, y, w, h]) =>
  form.tall ? [x, form.height - y - h, w, h] : [form.width - x - w, y, w, h];

const wiresOf = (form, parts) => {
  const lines = [];
  for (const name of ["queue pair", "completion queue", "memory"]) {
    const [x, y, w, h] = parts[name];
    for (const other of ["application", "NIC"]) {
      const [ox, oy, ow, oh] = parts[other];
      if (form.tall) {
        const below = oy > y;
        lines.push([x + w / 2, below ? y + h : y, x + w / 2, below ? oy : oy + oh]);
      } else {
        const right = ox > x;
        lines.push([right ? x + w : x, y + h / 2, right ? ox : ox + ow, y + h / 2]);
      }
    }
  }
  return lines;
};

// Return everything that stands still.
export const drawing = (tall) => {
  const form = tall ? TALL : WIDE;
  const hosts = [0, 1].map((host) => {
    const turn = host ? (box) => mirrored(form, box) : (box) => box;
    const parts = Object.fromEntries(Object.entries(form.parts).map(([name, box]) => [name, turn(box)]));
    const [x, y, w, h] = turn(form.frame);
    const title = form.tall ? [x + 11, host ? y + h - 10 : y + 23] : [x + 14, form.title[1]];
    return { host, frame: [x, y, w, h], title, parts, wires: wiresOf(form, parts) };
  });
  return { ...form, hosts, view: `0 0 ${form.width} ${form.height}` };
};

export const MOST_DRAWN = 48;
const CLEAR = 10;

// Return the packets between the hosts at a time, with their places along the wire; the current
// one is among them, where its event happens: at its sender (0), in the fabric (½) or behind it (1).
export const onTheWay = (form, packets, order, time, current, where) => {
  const [right, down] = form.tall ? [0, CLEAR] : [CLEAR, 0]; // clear of the NICs' words
  const [x1, y1, x2, y2] = [form.wire[0] + right, form.wire[1] + down, form.wire[2] - right, form.wire[3] - down];
  const found = [];
  const put = (index, part) => {
    const along = packets.direction[index] ? 1 - part : part;
    const anchor = form.tall || along < 0.5 ? "start" : along > 0.5 ? "end" : "middle";
    const [dx, dy] = form.tall ? [16, 4] : [0, -14];
    found.push({
      index, x: x1 + (x2 - x1) * along, y: y1 + (y2 - y1) * along, anchor, dx, dy,
      kind: packets.kind[index], back: packets.direction[index] === 1,
      lost: packets.arrival[index] === null && part === 0.5,
    });
  };
  // Packets leave in the order of their numbers, so those under way are near the last one sent.
  for (let k = order(time); k >= 0 && found.length < MOST_DRAWN; k--) {
    const [start, end] = [packets.sent[k], packets.arrival[k]];
    if (k !== current && start < time && end !== null && end > time) put(k, (time - start) / (end - start));
    if (order.done(k, time)) break;
  }
  if (current >= 0) put(current, where);
  return found.reverse();
};
