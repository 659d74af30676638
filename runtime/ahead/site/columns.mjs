// Rows of a safetensors file, as `compiler data pack` writes them.

const TYPES = { F32: Float32Array, F64: Float64Array, I64: BigInt64Array, I32: Int32Array, U8: Uint8Array,
  BOOL: Uint8Array };

/** Return typed arrays and shapes by name. */
export function columnsOf(file) {
  const end = 8 + Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, end - 8)));
  const columns = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    const type = TYPES[dtype]; // none for the metadata
    if (type) columns[name] = { array: new type(file.slice(end + data_offsets[0], end + data_offsets[1])), shape };
  }
  return columns;
}
