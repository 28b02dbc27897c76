export { Device, type StatusListener } from "./device.js";
export { DeviceError, type DeviceErrorCode } from "./errors.js";
export type { Transport } from "./line.js";
export { MAX_ACTIVITY, type BearerToken, type DeviceOptions } from "./options.js";
export type { ClientInfo, DeviceState } from "./protocol.js";
export type { DeviceStatus, Phase, SharedStatus } from "./status.js";
