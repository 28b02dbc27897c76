import { Attention, type Report } from "./attention.js";
import type { Channel, Host } from "./host.js";
import type { SharedStatus } from "./status.js";

/** What a tab must know to show how the device is doing, and to take the lead. */
export interface Lead {
  readonly status: SharedStatus;
  readonly session: string;
}

/** What tabs of a browser say to each other. */
type Word =
  /** A tab tells its state; the one that leads should speak if it is asked. */
  | ({ readonly say: "report"; readonly ask: boolean } & Report)
  /** A tab ends or is stopped. */
  | { readonly say: "bye" }
  /** A tab leads; if it calls, the others should report. */
  | ({ readonly say: "lead"; readonly call: boolean } & Lead)
  /** The user logs out: all tabs end. */
  | { readonly say: "logout" }
  /** The device shall be here, wherever else it is connected. */
  | { readonly say: "open" };

interface Letter {
  readonly from: string;
  readonly word: Word;
}

/** What a tab does about what others say. */
export interface Member {
  /** The state of some tab is another. */
  changed(): void;
  /** A tab asks who leads. */
  asked(): void;
  /** Another tab leads. */
  led(lead: Lead): void;
  /** It calls for reports. */
  called(): void;
  /** It leads no more. */
  left(): void;
  logout(): void;
  open(): void;
}

/** The tabs of a browser that are one device, as one of them knows them. */
export class Tabs {
  /** Everybody hears the reports of all, so that whoever is to lead knows them. */
  readonly attention = new Attention();
  readonly #host: Host;
  readonly #channel: Channel | undefined;
  readonly #member: Member;
  readonly #self: string;
  /** The tab that leads, as far as is known. */
  #leader: string | undefined;

  /** Without a channel a tab is alone. */
  constructor(host: Host, channel: Channel | undefined, member: Member) {
    this.#host = host;
    this.#self = host.name();
    this.#member = member;
    this.#channel = channel;
    channel?.hear((message) => this.#hear(message as Letter)); // the channel's name has a version
  }

  /** Tells the state of this tab. */
  report(report: Report, ask: boolean): void {
    this.attention.report(this.#self, report, this.#host.now());
    this.#say({ say: "report", ask, ...report });
  }

  /** Tells the others that this tab leads. */
  lead(lead: Lead, call: boolean): void {
    this.#say({ say: "lead", call, ...lead });
  }

  /** Begins a round of reports; who has not reported in the last one is gone. */
  round(): void {
    this.attention.round(this.#self);
  }

  /** Tells the others not to count on this tab any more. */
  bye(): void {
    this.attention.remove(this.#self);
    this.#say({ say: "bye" });
  }

  logout(): void {
    this.#say({ say: "logout" });
  }

  open(): void {
    this.#say({ say: "open" });
  }

  /** Says whether there are other tabs that can go on. */
  get others(): boolean {
    return this.attention.others(this.#self);
  }

  close(): void {
    this.#channel?.close();
  }

  #say(word: Word): void {
    this.#channel?.say({ from: this.#self, word } satisfies Letter);
  }

  #hear({ from, word }: Letter): void {
    switch (word.say) {
      case "report":
        this.attention.report(from, word, this.#host.now());
        this.#member.changed();
        if (word.ask) this.#member.asked();
        break;
      case "bye":
        this.attention.remove(from);
        this.#member.changed();
        if (from === this.#leader) this.#member.left();
        break;
      case "lead":
        this.#leader = from;
        this.#member.led(word);
        if (word.call) this.#member.called();
        break;
      case "logout":
        this.#member.logout();
        break;
      case "open":
        this.#member.open();
    }
  }
}
