// uPlot, in a file of its own: a page shows its figures before this has come.

import "../language";
import uPlot from "uplot";

export default uPlot;
