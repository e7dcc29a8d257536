// Begins here: which page is shown.

import "./style.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { Frame, StandBy } from "./parts/frame";
import { coordinator, liveOf, rests } from "./data";
import { shown } from "./format";
import { startKeys } from "./keys";
import { Assignment } from "./pages/assignment";
import { Changes } from "./pages/changes";
import { Containers } from "./pages/containers";
import { Coordinators } from "./pages/coordinators";
import { DeadLetters } from "./pages/deadletters";
import { Drain } from "./pages/drain";
import { Events } from "./pages/events";
import { Graph } from "./pages/graph";
import { Jobs } from "./pages/jobs";
import { LaneDetail, Lanes } from "./pages/lanes";
import { Login } from "./pages/login";
import { Matrix } from "./pages/matrix";
import { Nowhere } from "./pages/nowhere";
import { Overview } from "./pages/overview";
import { Partitions } from "./pages/partitions";
import { Sizing } from "./pages/sizing";
import { route, startRouter } from "./router";
import { colours, needsToken } from "./session";
import { isOld } from "./poll";

function Page() {
  const [first, job, page = "", detail] = route.value.path;
  if (first === undefined) return <Jobs />;
  if (first === "coordinators") return <Coordinators />;
  if (first !== "jobs" || job === undefined) return <Nowhere />;
  const of = { job, key: `${job}/${page}` };
  switch (page) {
    case "":
      return <OfJob job={job}><Overview {...of} /></OfJob>;
    case "graph":
      return <OfJob job={job}><Graph {...of} /></OfJob>;
    case "matrix":
      return <OfJob job={job}><Matrix {...of} /></OfJob>;
    case "lanes":
      return <OfJob job={job}>{detail ? <LaneDetail {...of} id={detail} key={detail} /> : <Lanes {...of} />}</OfJob>;
    case "partitions":
      return <OfJob job={job}><Partitions {...of} /></OfJob>;
    case "containers":
      return <Containers {...of} />;
    case "assignment":
      return <OfJob job={job}><Assignment {...of} /></OfJob>;
    case "changes":
      return <OfJob job={job}><Changes {...of} /></OfJob>;
    case "drain":
      return <OfJob job={job}><Drain {...of} /></OfJob>;
    case "sizing":
      return <OfJob job={job}><Sizing {...of} /></OfJob>;
    case "events":
      return <OfJob job={job}><Events {...of} /></OfJob>;
    case "dead-letters":
      return <OfJob job={job}><DeadLetters {...of} /></OfJob>;
    default:
      return <Nowhere />;
  }
}

function OfJob({ job, children }: { job: string; children: preact.ComponentChildren }) {
  const live = liveOf(job);
  const leader = coordinator().data.value?.leader;
  const old = isOld(live);
  const now = live.data.value;
  return (
    <>
      {now?.served === false && !rests(now.state) && <StandBy leader={leader} />}
      <div class={old ? "old" : ""}>{children}</div>
    </>
  );
}

function App() {
  return <Frame>{needsToken.value ? <Login /> : <Page />}</Frame>;
}

startRouter();
startKeys();
effect(() => {
  document.documentElement.dataset.theme = colours.value;
});
effect(() => {
  const [, job, page] = route.value.path;
  document.title = [page, job && shown(job), "anabranch"].filter(Boolean).join(" · ");
});

function begin(): void {
  const root = document.getElementById("app")!;
  root.replaceChildren();
  render(<App />, root);
}

// The document has a frame of its own. It is painted first, as the page takes a slow browser longer; unless nobody sees it.
if (document.visibilityState === "hidden") begin();
else requestAnimationFrame(() => setTimeout(begin));
