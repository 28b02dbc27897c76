import {
  credsAuthenticator,
  jwtAuthenticator,
  wsconnect,
  type Authenticator,
  type NatsConnection,
} from "@nats-io/nats-core";
import { inboxPrefix } from "./token.js";

/** Who one is to the server: the text of a NATS credentials file, or its two parts. */
export type Token = string | { readonly jwt: string; readonly seed: string };

/** Where and as whom to connect. */
export interface Servers {
  /** WebSocket URLs, "wss://…". */
  readonly servers: string | string[];
  /**
   * Left out for a server that knows no identities. A function is asked at every connect
   * and reconnect, so that a client outlives the tokens that it connects with: it
   * returns one that has not expired.
   */
  readonly token?: Token | (() => Token);
}

/**
 * Connects a viewer by WebSocket. The connection survives whatever happens to the
 * server later: it is never given up, a dead path is noticed within 15 s, and clients
 * do not come back in step.
 */
export async function connect(viewer: string, { servers, token }: Servers): Promise<NatsConnection> {
  // Without it the transport would wait for ever.
  if (typeof WebSocket === "undefined") throw new Error("no WebSocket here: Node has it from 22 on; or pass a connection");
  return wsconnect({
    servers,
    name: "rollcall viewer",
    inboxPrefix: inboxPrefix(viewer),
    ...(token !== undefined && { authenticator: authenticator(token) }),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 500,
    reconnectJitter: 500,
    reconnectJitterTLS: 1_000,
    pingInterval: 5_000,
    maxPingOut: 2,
    // A page reaches the servers that it was given, not those that they know.
    ignoreClusterUpdates: true,
  });
}

const utf8 = new TextEncoder();

function authenticator(token: Token | (() => Token)): Authenticator {
  const authenticate: Authenticator = (nonce) => {
    const t = typeof token === "function" ? token() : token;
    const one = typeof t === "string" ? credsAuthenticator(utf8.encode(t)) : jwtAuthenticator(t.jwt, utf8.encode(t.seed));
    return one(nonce);
  };
  authenticate(); // what is no token fails here, and not in the midst of connecting
  return authenticate;
}
