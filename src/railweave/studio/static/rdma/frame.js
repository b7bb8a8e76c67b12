// One decoded frame: which field a byte belongs to, which bytes and bits a field has.

// The name by which a link keeps what is selected: "BTH" or "BTH.PSN".
export const pathOf = (layer, field) => (field ? `${layer.name}.${field.name}` : layer.name);

// What a path names in a frame: its layer and field, and its bits; null where it has none such.
export const place = (frame, path) => {
  if (!frame || !path) return null;
  for (const layer of frame.layers) {
    if (path === layer.name) {
      return { layer, field: null, first: layer.start * 8, bits: (layer.end - layer.start) * 8 };
    }
    const field = layer.fields.find((one) => pathOf(layer, one) === path);
    if (field) return { layer, field, first: field.first_bit, bits: field.bits };
  }
  return null;
};

// The paths of the fields that a byte is part of, first to last.
export const fieldsAt = (frame, byte) => {
  const found = [];
  for (const layer of frame.layers) {
    if (byte < layer.start || byte >= layer.end) continue;
    for (const field of layer.fields) {
      const end = field.first_bit + field.bits;
      if (field.first_bit < (byte + 1) * 8 && end > byte * 8) found.push(pathOf(layer, field));
    }
    if (!found.length) found.push(layer.name);
  }
  return found;
};

const MOST_BITS = 64;

// The bits of the bytes that a field touches, each with the path of its own field; [] for long ones.
export const bitsOf = (frame, at) => {
  if (!at || !at.field || at.bits > MOST_BITS) return [];
  const from = at.first >> 3;
  const to = (at.first + at.bits + 7) >> 3;
  const bits = [];
  for (let bit = from * 8; bit < to * 8; bit++) {
    const byte = parseInt(frame.hex.slice((bit >> 3) * 2, (bit >> 3) * 2 + 2), 16);
    const owner = at.layer.fields.find((one) => one.first_bit <= bit && bit < one.first_bit + one.bits);
    bits.push({
      bit,
      one: (byte >> (7 - (bit & 7))) & 1,
      on: bit >= at.first && bit < at.first + at.bits,
      path: owner ? pathOf(at.layer, owner) : at.layer.name,
      gap: (bit & 7) === 0 && bit > from * 8,
    });
  }
  return bits;
};
