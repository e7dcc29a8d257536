// Requests to the coordinator that serves the page. Addresses are relative to it, so that any path prefix works.

import { signal } from "@preact/signals";
import { needsToken, randomId, role, token, useToken } from "./session";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly cure: string,
    readonly kind: string,
    readonly id: string,
  ) {
    super(message);
  }

  /** The coordinator was not reached at all. */
  get isOffline(): boolean {
    return this.status === 0 && this.kind !== OUT_OF_TIME;
  }

  /** It has no such call: it's of another version than the page. */
  get isUnknownCall(): boolean {
    return (this.status === 404 && this.kind === "AnabranchError") || this.status === 405;
  }
}

export interface Answer<T> {
  body: T;
  etag: string | null;
}

const WITHIN = 30_000;
/** The same where the coordinator asks other systems, to which it gives a minute. */
const WITHIN_OF_SYSTEMS = 75_000;
const WITHIN_OF_CHANGES = 120_000;
const OUT_OF_TIME = "OutOfTimeError";

/** Whether the coordinator asks other systems for what is at a path: that takes long, and each time costs them something. */
export function asksSystems(path: string): boolean {
  return /^jobs\/[^/]+\/(assignment|dead-letters|early-output)(\?|$)/.test(path);
}

/** Whether the last request reached a coordinator, and when the next one is sent if not (ms of clock() in poll.ts). */
export const lost = signal<{ since: number; next: number } | null>(null);

/** begins: the ms within which an answer must begin. It may take longer to come as a whole: links can be slow. */
export async function get<T>(path: string, etag: string | null = null, signal?: AbortSignal, begins = WITHIN): Promise<Answer<T> | null> {
  const headers: Record<string, string> = etag === null ? {} : { "If-None-Match": etag };
  const answer = await send(path, { headers, signal, begins });
  if (answer.response.status === 304) return null;
  return { body: understood<T>(answer, "a proxy may have answered in its place; the page tries again"), etag: answer.response.headers.get("ETag") };
}

export async function post<T>(path: string, body?: unknown): Promise<T> {
  const headers = body === undefined ? undefined : { "Content-Type": "application/json" };
  const content = body === undefined ? undefined : JSON.stringify(body);
  const answer = await send(path, { method: "POST", headers, body: content });
  return understood<T>(answer, "a proxy may have answered in its place: look how the job is, and try again");
}

interface Sent {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: AbortSignal;
  begins?: number;
}

interface Received {
  response: Response;
  text: string;
  id: string;
}

async function send(path: string, { headers, signal: given, begins, ...init }: Sent): Promise<Received> {
  const id = randomId().slice(0, 8);
  const used = token.value;
  const authorization: Record<string, string> = used ? { Authorization: `Bearer ${used}` } : {};
  let response: Response;
  let text: string;
  const within = init.method === "POST" ? WITHIN_OF_CHANGES : asksSystems(path) ? WITHIN_OF_SYSTEMS : WITHIN;
  const limit = AbortSignal.timeout(within);
  const late = new AbortController();
  const timer = begins === undefined ? undefined : setTimeout(() => late.abort(), begins);
  try {
    const limits = [limit, late.signal];
    response = await fetch(`../${path}`, {
      ...init,
      headers: { ...headers, ...authorization },
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      redirect: "error",
      signal: AbortSignal.any(given ? [given, ...limits] : limits),
    });
    clearTimeout(timer);
    text = await response.text();
  } catch (error) {
    if (given?.aborted) throw error;
    if (limit.aborted) throw new ApiError(0, `there was no answer within ${within / 1000} s`, "the coordinator may still be at it, or wait for a system", OUT_OF_TIME, id);
    throw new ApiError(0, "the coordinator isn't reached", "the page tries again; look whether it runs", "", id);
  } finally {
    clearTimeout(timer);
  }
  if (token.value === used) role.value = response.headers.get("X-Anabranch-Role") ?? role.value;
  if (response.ok || response.status === 304) return { response, text, id };
  if (response.status === 401) {
    if (token.value === used) {
      if (used !== null) useToken(null);
      needsToken.value = true;
    }
  }
  throw failure(response.status, text, id);
}

function understood<T>({ response, text, id }: Received, cure: string): T {
  try {
    return parsed<T>(text);
  } catch {
    throw new ApiError(response.status, "the answer isn't the coordinator's", cure, "", id);
  }
}

function failure(status: number, text: string, id: string): ApiError {
  try {
    const { error, cure, kind } = JSON.parse(text) as Record<string, unknown>;
    return new ApiError(status, String(error ?? status), String(cure ?? ""), String(kind ?? ""), id);
  } catch {
    return new ApiError(status, `HTTP ${status}: ${text.slice(0, 200)}`, "", "", id);
  }
}

/** JSON, in which whole numbers that JavaScript would round are kept as their text. */
export function parsed<T>(text: string): T {
  if (!/\d{16}/.test(text)) return JSON.parse(text) as T;
  return JSON.parse(text, exactly as (key: string, value: unknown) => unknown) as T;
}

function exactly(_key: string, value: unknown, context?: { source?: string }): unknown {
  const written = context?.source;
  const rounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return rounded && written !== undefined && /^-?\d+$/.test(written) ? written : value;
}
