export { MOST_DRAWN, drawing, onTheWay } from "./hosts.js";
export { ByteGrid, PacketGrid } from "./grids.js";
export { bitsOf, fieldsAt, pathOf, place } from "./frame.js";
