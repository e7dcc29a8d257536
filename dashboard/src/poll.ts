// What the page shows and asks for again and again: conditional requests every two seconds, none in a hidden tab.

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { ApiError, asksSystems, get, lost } from "./api";
import { needsToken } from "./session";

export const PERIOD = 2_000;
/** After so many ms without an answer the figures are called old, and then they don't count any more. */
export const STALE = 6_000;
export const DEAD = 10_000;
/** Within so many ms the answer to what is asked for again and again must begin, as the figures that are there are old then. */
const BEGINS = DEAD - PERIOD;
/** The refusals before any system is asked: without a valid token, or by a coordinator that doesn't lead. */
const UNASKED = new Set([401, 503]);
const MOST_KEPT = 40;
const LONGEST_WAIT = 30_000;

/** What the clock may gain on performance.now between two ticks, in ms, until the machine is taken to have slept. */
const ASLEEP = 2_000;

let slept = 0;
let lead = Date.now() - performance.now();

/** performance.now, and all the time for which the machine slept: in many browsers that stands still meanwhile. */
export function clock(): number {
  return performance.now() + slept;
}

/** Ticks four times a second while the tab is seen. */
export const now = signal(clock());
setInterval(() => {
  const gained = Date.now() - performance.now() - lead;
  lead += gained;
  if (gained > ASLEEP) slept += gained;
  if (document.hidden) return;
  now.value = clock();
  if (gained > ASLEEP) askAll();
}, 250);

export class Resource<T> {
  readonly data: Signal<T | null> = signal(null);
  readonly error: Signal<ApiError | null> = signal(null);
  /** When the coordinator last said that this is so: ms of clock(). */
  readonly heard: Signal<number> = signal(0);
  /** When the data came that is there now, which may have been confirmed since: ms of clock(). */
  came = 0;
  users = 0;
  private etag: string | null = null;
  private timer: number | undefined;
  private failures = 0;
  private asking: AbortController | null = null;
  private again = false;

  constructor(
    readonly path: string,
    private period: number,
  ) {}

  use(period: number): void {
    this.users += 1;
    this.period = period;
    if (this.users === 1) void this.ask();
  }

  release(): void {
    this.users -= 1;
    if (this.users > 0) return;
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }

  /** Ask now, and not only when it is time. */
  readonly ask = async (): Promise<void> => {
    clearTimeout(this.timer);
    this.again = this.asking !== null; // what is under way may have been answered before what one asks for
    if (this.asking || this.users === 0 || needsToken.peek()) return;
    const asking = new AbortController();
    this.asking = asking;
    try {
      const answer = await get<T>(this.path, this.etag, asking.signal, this.period === 0 ? undefined : BEGINS);
      if (asking.signal.aborted) return;
      if (answer !== null) {
        this.etag = answer.etag;
        this.came = clock();
        this.data.value = answer.body;
      }
      this.heard.value = clock();
      this.error.value = null;
      this.failures = 0;
      lost.value = null;
    } catch (error) {
      if (asking.signal.aborted) return;
      this.failed(error);
    } finally {
      if (this.asking === asking) {
        this.asking = null;
        if (this.again) void this.ask();
        else this.plan();
      }
    }
  };

  private failed(error: unknown): void {
    this.failures += 1;
    if (!(error instanceof ApiError)) throw error;
    this.error.value = error;
    if (error.isUnknownCall) this.failures = 6; // it won't have it in a second either
    if (error.isOffline) {
      lost.value = { since: lost.peek()?.since ?? clock(), next: clock() + this.wait };
    } else if (error.status > 0) {
      lost.value = null;
    }
  }

  /** Whether it's asked for again by itself: what changes, what isn't there yet, and what failed. But what other systems
   * were asked for is asked for again by hand. */
  get repeats(): boolean {
    if (this.period > 0) return true;
    if (this.failures === 0) return this.heard.peek() === 0 && this.asking === null;
    const error = this.error.peek();
    return !asksSystems(this.path) || error === null || error.isOffline || UNASKED.has(error.status);
  }

  private plan(): void {
    if (this.users === 0 || document.hidden) return;
    if (!this.repeats) return;
    this.timer = setTimeout(() => void this.ask(), this.wait);
  }

  private get wait(): number {
    if (this.failures === 0) return this.period;
    const longest = this.failures > 5 ? LONGEST_WAIT : 1_000 * 2 ** (this.failures - 1);
    return Math.max(this.period / 2, longest * (0.75 + (this.failures % 3) / 4));
  }
}

const kept = new Map<string, Resource<unknown>>();

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) askAll();
});

/** Ask for all that is shown and may be another, now: something has happened. */
export function askAll(): void {
  for (const each of kept.values()) if (each.users > 0 && each.repeats) void each.ask();
}

function resource<T>(path: string, period: number): Resource<T> {
  let found = kept.get(path);
  if (!found) {
    for (const [name, each] of kept) {
      if (kept.size < MOST_KEPT) break;
      if (each.users === 0) kept.delete(name);
    }
    found = new Resource<unknown>(path, period);
    kept.set(path, found);
  }
  return found as Resource<T>;
}

/** What is at a path, for as long as the component is there and it is wanted. period 0: once. */
export function useResource<T>(path: string, period: number = PERIOD, wanted = true): Resource<T> {
  const found = resource<T>(path, period);
  // before the page is painted: the answer is under way meanwhile
  useLayoutEffect(() => {
    if (!wanted) return undefined;
    found.use(period);
    return () => found.release();
  }, [found, period, wanted]);
  return found;
}

const olds = new WeakMap<object, ReadonlySignal<boolean>>();

/** Whether what is shown doesn't count any more. Whoever asks is drawn again when that changes, and not with each tick. */
export function isOld(of: Resource<unknown>): boolean {
  let found = olds.get(of);
  if (!found) {
    found = computed(() => of.heard.value > 0 && now.value - of.heard.value > DEAD);
    olds.set(of, found);
  }
  return found.value;
}

const latenesses = new WeakMap<object, ReadonlySignal<number>>();

/** For how many whole seconds what is shown is late; 0: it comes when it should. For what is there many times: whoever
 * asks is drawn again once a second, and only while nothing comes. */
export function lateness(of: Resource<unknown>): number {
  let found = latenesses.get(of);
  if (!found) {
    found = computed(() => Math.max(0, Math.floor((now.value - of.heard.value - PERIOD) / 1_000)));
    latenesses.set(of, found);
  }
  return found.value;
}

/** How long ago the coordinator said this, in ms; null: it never did. */
export function age(of: Resource<unknown>): number | null {
  return of.heard.value === 0 ? null : Math.max(0, now.value - of.heard.value);
}
