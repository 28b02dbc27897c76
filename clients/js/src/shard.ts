import type { Message, Position } from "./contract.js";

/** How long after an answer, in ms, the messages that it told of may arrive. */
export const GRACE = 2000;

/** The state of a feed and the reason for it. */
interface FeedState {
  readonly state: string;
  readonly reason: string;
}

const nothingSaid: FeedState = { state: "", reason: "" };

function feedOf(p: Position): FeedState {
  return { state: p.feed, reason: p.reason };
}

function sameFeed(a: FeedState, b: FeedState): boolean {
  return a.state === b.state && a.reason === b.reason;
}

/** Where the stream of one shard stands for this client. */
export class Shard {
  /**
   * Set by the first answer. Before it, generation and seq are those of the newest
   * message: another client of the viewer may have the stream to itself.
   */
  known = false;
  generation = 0;
  /** Every message up to here has come, or is covered by `lost`. */
  seq = 0;
  /** The newest that anything told. Answers run ahead of the stream. */
  feed = nothingSaid;
  /** What the stream said at `seq`. */
  #said = nothingSaid;
  /** Of the viewer, as of the last answer to this client. */
  #targets = 0;

  /** Messages up to `#lostSeq` may be missing: subscribe again. */
  lost = false;
  #lostSeq = 0;
  /** The last base was older than `#lostSeq`. */
  #older = false;
  /**
   * A seq that an answer told of, which has `#claimedAt` plus a moment to come:
   * answers and messages take different ways.
   */
  #claimed = 0;
  #claimedAt = 0;
  /** Targets that this client is unsubscribing from. */
  leaving = 0;

  lose(seq: number): void {
    this.lost = true;
    this.#lostSeq = Math.max(this.#lostSeq, seq);
  }

  /**
   * Takes the position of a message into account and says whether the feed has
   * changed. The generation is not below the shard's.
   */
  message(m: Message): boolean {
    if (!this.known) {
      if (this.generation === m.generation && m.seq < this.seq) return false;
      this.generation = m.generation;
      this.seq = m.seq;
      return this.#hear(m);
    }
    if (m.generation > this.generation) {
      this.#adopt(m);
      this.lose(m.seq);
      return this.#hear(m);
    }
    if (m.seq < this.seq) return false; // late or repeated
    if (m.seq === this.seq) return this.#hear(m);
    return this.#advance(m);
  }

  #advance(m: Message): boolean {
    const next = m.seq === this.seq + 1;
    const changed = this.#hear(m);
    const announced = !sameFeed(this.#said, this.feed);
    this.seq = m.seq;
    this.#said = this.feed;
    if (m.seq >= this.#claimed) this.#claimed = 0;
    // A message that says nothing either repeats the position of one that was lost,
    // or says that another client of this viewer has unsubscribed, maybe from our
    // targets.
    const says = m.changes.length > 0 || announced || this.#leaves(m);
    if (!next || !says) this.lose(m.seq);
    return changed;
  }

  /**
   * Takes the position of a snapshot into account. A base stands for all that was
   * said before it.
   */
  answer(p: Position, base: boolean, now: number): boolean {
    if (!this.known) {
      this.#begin(p);
    } else if (p.generation > this.generation) {
      this.#adopt(p);
      this.lost = !base;
    } else if (base && p.seq < this.#lostSeq && this.#older) {
      // The owner really stands there; we have believed what it never sent.
      this.#adopt(p);
      this.lost = false;
    } else if (base) {
      this.#rebase(p);
    } else {
      this.#targets = p.targets;
      this.#claim(p.seq, now);
    }
    return p.seq < this.seq ? false : this.#hear(p);
  }

  #rebase(p: Position): void {
    this.#targets = p.targets;
    this.#older = p.seq < this.#lostSeq; // maybe the answer took the longer way
    if (!this.#older) {
      this.lost = false;
      this.#lostSeq = 0;
    }
    if (p.seq >= this.seq) {
      this.seq = p.seq;
      this.#claimed = 0;
      this.#said = feedOf(p);
    }
  }

  /**
   * Takes the first position over. Of the messages that were sent after it and have
   * come before it, some may be missing.
   */
  #begin(p: Position): void {
    const { generation, seq } = this;
    this.#adopt(p);
    this.lost = false;
    if (generation === p.generation && seq > p.seq) {
      this.seq = seq;
      this.lose(seq);
    }
  }

  /** Takes a position over as it is, without asking what came before. */
  #adopt(p: Position): void {
    this.known = true;
    this.generation = p.generation;
    this.seq = p.seq;
    this.#targets = p.targets;
    this.#claimed = 0;
    this.#lostSeq = 0;
    this.#older = false;
    this.#said = feedOf(p);
  }

  /** Takes the state of the feed over and says whether it is new. */
  #hear(p: Position): boolean {
    const before = this.feed;
    this.feed = feedOf(p);
    return !sameFeed(this.feed, before);
  }

  /** Says that just what this client unsubscribes from is missing. */
  #leaves(p: Position): boolean {
    return this.leaving > 0 && p.targets === this.#targets - this.leaving;
  }

  /** Goes back to before the first answer. */
  forget(): void {
    this.known = false;
    this.lost = false;
    this.#lostSeq = 0;
    this.#claimed = 0;
  }

  /** Notes that messages up to seq were sent. */
  #claim(seq: number, now: number): void {
    if (seq > this.seq && seq > this.#claimed) {
      this.#claimed = seq;
      this.#claimedAt = now;
    }
  }

  /**
   * Takes the answer to this client's unsubscribe into account. If it removed
   * something, the last seq says just that.
   */
  unsubscribed(p: Position, now: number): void {
    if (!this.known || p.generation !== this.generation) return;
    if (p.seq === this.seq + 1 && this.#leaves(p)) this.seq = p.seq;
    this.#targets = p.targets;
    this.#claim(p.seq, now);
  }

  /** Compares a position with ours and says whether the feed has changed. */
  refreshed(p: Position, now: number): boolean {
    if (p.generation > this.generation) {
      this.#adopt(p);
      this.lose(p.seq);
    } else if (p.targets !== this.#targets) {
      this.#targets = p.targets;
      this.lose(p.seq);
    }
    this.#claim(p.seq, now);
    return p.seq < this.seq ? false : this.#hear(p);
  }

  /** Gives up on messages that an answer told of a while ago. */
  overdue(now: number): void {
    if (this.#claimed > this.seq && now - this.#claimedAt >= GRACE) {
      this.seq = this.#claimed;
      this.lose(this.#claimed);
      this.#claimed = 0;
    }
  }

  /** When {@link overdue} may give up; undefined for never. */
  get claimDue(): number | undefined {
    return this.#claimed > this.seq ? this.#claimedAt + GRACE : undefined;
  }
}
