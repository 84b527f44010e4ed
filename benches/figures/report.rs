//! Collects figures, prints them, and writes docs/performance.md with its plots.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::reasons;

pub(crate) struct Report {
    wanted: Option<String>,
    rows: Vec<String>,
    /// The names of the rows that miss their goal.
    missed: Vec<String>,
    plots: Vec<Plot>,
}

pub(crate) fn median(times: Vec<f64>) -> f64 {
    percentile(times, 50)
}

pub(crate) fn percentile(mut times: Vec<f64>, percent: usize) -> f64 {
    times.sort_by(f64::total_cmp);
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

impl Report {
    pub(crate) fn new(wanted: Option<String>) -> Self {
        println!("{HEAD}");
        Self { wanted, rows: Vec::new(), missed: Vec::new(), plots: Vec::new() }
    }

    /// Measures a section, unless the command line selects other sections.
    pub(crate) fn section(&mut self, name: &str, measure: fn(&mut Report)) {
        if self.wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            measure(self);
        }
    }

    /// Adds a row. `goal` is the figure that we want to reach, or empty.
    pub(crate) fn row(&mut self, what: &str, ours: f64, floor: Option<f64>, unit: &str, goal: &str) {
        let goal = if is_missed(goal, ours, unit) {
            self.missed.push(what.to_owned());
            format!("{goal}, missed")
        } else {
            goal.to_owned()
        };
        let row = match floor {
            Some(floor) => format!("| {what} | {ours:.2} {unit} | {floor:.2} {unit} | {:.1} | {goal} |", ours / floor),
            None => format!("| {what} | {ours:.2} {unit} | | | {goal} |"),
        };
        println!("{row}");
        self.rows.push(row);
    }

    /// Prints why goals are missed, as the page says it.
    pub(crate) fn print_reasons(&self) {
        println!("\n{}", reasons::section(&self.missed));
    }

    pub(crate) fn plot(&mut self, plot: Plot) {
        for (x, y) in &plot.points {
            println!("{}: {x} {y:.2}", plot.name);
        }
        self.plots.push(plot);
    }

    /// Writes docs/performance.md, one SVG file per plot, and the figures in README.md.
    pub(crate) fn write(&self) {
        assert!(self.wanted.is_none(), "a selection of rows is not written");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let docs = root.join("docs");
        let machine = machine();
        let mut page = format!("{PREFACE}\n{machine}\n\n");
        writeln!(page, "{HEAD}\n{}\n\n{}", self.rows.join("\n"), reasons::section(&self.missed)).unwrap();
        page.push_str("## Growth\n\n");
        std::fs::create_dir_all(docs.join("performance")).unwrap();
        for plot in &self.plots {
            let file = format!("performance/{}.svg", plot.name);
            std::fs::write(docs.join(&file), plot.svg()).unwrap();
            writeln!(page, "![{} by {}]({file})\n", plot.y, plot.x).unwrap();
        }
        std::fs::write(docs.join("performance.md"), page.trim_end().to_owned() + "\n").unwrap();
        self.write_readme(&root.join("README.md"), &machine);
    }

    /// Replaces the figures in README.md, which stand between two marks.
    fn write_readme(&self, path: &Path, machine: &str) {
        let readme = std::fs::read_to_string(path).unwrap();
        let (before, rest) = readme.split_once(README_BEGIN).unwrap();
        let (_, after) = rest.split_once(README_END).unwrap();
        let shown = |row: &&String| SHOWN_FIRST.iter().any(|name| row.starts_with(&format!("| {name} |")));
        let rows: Vec<&str> = self.rows.iter().filter(shown).map(String::as_str).collect();
        let figures = format!("{README_BEGIN}\n{machine}\n\n{HEAD}\n{}\n{README_END}", rows.join("\n"));
        std::fs::write(path, format!("{before}{figures}{after}")).unwrap();
    }
}

/// Returns whether a figure misses its goal. More is better for rates, and less for everything
/// else.
fn is_missed(goal: &str, ours: f64, unit: &str) -> bool {
    let wanted = goal.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    wanted.is_some_and(|wanted| if unit == RATE { ours < wanted } else { ours > wanted })
}

/// The unit of rates.
pub(crate) const RATE: &str = "thousand/s";

/// The marks around the figures in README.md.
const README_BEGIN: &str = "<!-- figures: written by the bench -->";
const README_END: &str = "<!-- end of figures -->";

/// The rows that README.md shows.
const SHOWN_FIRST: [&str; 12] = [
    "spawn to `initialize`, daemon running, median",
    "prompt to model asked, median",
    "chunk latency, one stream, median",
    "chunk latency that hosting adds, median",
    "ceiling, one stream",
    "ceiling, 50 streams together",
    "bytes written per byte of text, chunks of 4 B",
    "load of 100,000 chunks, from the disk, median",
    "prompt to model asked after 1,000 turns (10 MB), median",
    "daemon resident, fresh",
    "bridge resident",
    "program",
];

/// The head of the table.
const HEAD: &str = "| what | acpd | floor | ratio | goal |\n|---|---|---|---|---|";

const PREFACE: &str = "\
# Performance

Written by `cargo bench --bench figures -- --write`; do not edit. A model server streams as fast as
it is read, a real daemon sends requests to it, and clients read what real bridges deliver. The
floor, measured in the same run, is an agent that only relays the model's stream to its stdout: it
has no history, no actors and no permissions. Ratios carry over to other machines better than times.

A chunk is one event of the model's stream. Chunks that arrive together are sent and stored
together.

Times vary with the machine and its load. What does not vary is tested on every change: the tests in
`tests/counts` and `tests/process/counts.rs` count allocations, writes, bytes and disk syncs per
chunk, per turn and per idle session.
";

/// Describes the measurement: the commit, the machine, and how busy it was.
fn machine() -> String {
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let processor = processor.unwrap_or("an unknown processor");
    format!("This run: commit {commit}, {cores} cores ({processor}), load average {load} at its end.")
}

pub(crate) struct Plot {
    name: &'static str,
    x: &'static str,
    y: &'static str,
    points: Vec<(f64, f64)>,
}

impl Plot {
    pub(crate) fn new(name: &'static str, x: &'static str, y: &'static str, points: &[(f64, f64)]) -> Self {
        Self { name, x, y, points: points.to_vec() }
    }

    /// Draws a line through the points, with axes from zero and the value beside each point.
    fn svg(&self) -> String {
        const WIDTH: f64 = 640.0;
        const HEIGHT: f64 = 280.0;
        const LEFT: f64 = 60.0;
        const BOTTOM: f64 = 40.0;
        const TOP: f64 = 30.0;
        let most = |pick: fn(&(f64, f64)) -> f64| self.points.iter().map(pick).fold(f64::MIN_POSITIVE, f64::max);
        let (most_x, most_y) = (most(|point| point.0), most(|point| point.1) * 1.1);
        let place = |(x, y): (f64, f64)| {
            (LEFT + x / most_x * (WIDTH - LEFT - 40.0), HEIGHT - BOTTOM - y / most_y * (HEIGHT - BOTTOM - TOP))
        };
        let mut line = String::new();
        let mut marks = String::new();
        for point in &self.points {
            let (x, y) = place(*point);
            write!(line, "{x:.1},{y:.1} ").unwrap();
            writeln!(
                marks,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#2563eb\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.1}</text>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y - 8.0,
                point.1,
                HEIGHT - BOTTOM + 16.0,
                point.0
            )
            .unwrap();
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"16\" font-size=\"13\">{y} by {x}</text>\n\
             <path d=\"M{LEFT} {TOP} V{floor} H{right}\" fill=\"none\" stroke=\"#666\"/>\n\
             <polyline points=\"{line}\" fill=\"none\" stroke=\"#2563eb\" stroke-width=\"2\"/>\n{marks}</svg>\n",
            x = self.x,
            y = self.y,
            floor = HEIGHT - BOTTOM,
            right = WIDTH - 20.0
        )
    }
}
