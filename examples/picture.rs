//! Draws the picture of the README from a real run: `cargo run --example picture --
//! target/debug/acpd > docs/picture.svg`. With `--screens` behind the program it writes the page
//! docs/screens.md instead: `ask` and `ctl top` at two sizes, and `ask` in a pipe, as text.
//!
//! It starts the program in tmux with an empty home, types what a user would type, and draws the
//! resulting screens as SVG. With `-` it draws a capture (`tmux capture-pane -e -p`) from stdin
//! instead.

#![allow(clippy::print_stdout, reason = "the picture is printed")]

use std::error::Error;
use std::fs;
use std::io::Read;
use std::num::NonZeroU16;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vt100::{Cell, Color, Parser};

type Answer<T> = Result<T, Box<dyn Error>>;

const COLUMNS: u16 = 80;

/// The width of a letter and the height of a line, in units of the picture.
const LETTER: f32 = 8.4;
const LINE: f32 = 18.0;
const MARGIN: f32 = 16.0;
const BAR: f32 = 30.0;

/// How long to wait for anything to appear on the screen.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(20);

const PROMPT: &str = "replace world with there in main.rs, then run cat main.rs";

fn main() -> Answer<()> {
    let program = std::env::args().nth(1).ok_or("which program?")?;
    if std::env::args().nth(2).as_deref() == Some("--screens") {
        println!("{}", page(&fs::canonicalize(program)?)?);
        return Ok(());
    }
    let screens = if program == "-" {
        let mut capture = String::new();
        std::io::stdin().read_to_string(&mut capture)?;
        vec![("acpd", capture)]
    } else {
        record(&fs::canonicalize(program)?)?
    };
    println!("{}", draw(&screens));
    Ok(())
}

/// Records `ask` during a command, at a question and after an answer, and `top`, at two sizes, and
/// `ask` in a pipe.
fn page(program: &Path) -> Answer<String> {
    let mut page =
        "# Screens\n\n`acpd ask` and `acpd ctl top` in a real run with the built-in model, at two sizes, and `acpd ask` in\n\
         a pipe. Written by `just screens`; empty lines at the end are left out, and /home/you stands for\n\
         the home folder.\n"
            .to_owned();
    for (columns, rows) in [(80, 24), (140, 45)] {
        let stage = Stage::build(program)?;
        let size = format!("{columns}x{rows}");
        let mut show = |what: &str, screen: &str| page.push_str(&stage.section(&format!("{what}, {size}"), screen));
        stage.open_wide("talk", columns, rows)?;
        stage.type_in("talk", "acpd ask")?;
        stage.wait_for("talk", "Ctrl-D to")?;
        stage.type_in("talk", "run the command: seq 5; sleep 9; seq 3, then replace world with there in main.rs")?;
        stage.wait_for("talk", "[y]es")?;
        stage.press("talk", "y")?;
        stage.wait_for("talk", " │ 5")?;
        stage.tmux(&["send-keys", "-t", "=talk:", "-l", "then read main.rs"])?;
        stage.wait_for("talk", "» then read")?;
        show("A running command and typed input", &stage.text("talk")?);
        stage.press("talk", "C-u")?;
        stage.wait_for("talk", "+    println")?;
        show("A question about an edit", &stage.text("talk")?);
        stage.open_wide("top", columns, rows)?;
        stage.type_in("top", "acpd ctl top")?;
        stage.wait_for("top", "asks: ")?;
        show("top", &stage.text("top")?);
        stage.press("talk", "n")?;
        stage.wait_for("top", "0 waiting")?;
        let lines: String = (1..=130).map(|line| format!("echo this is line {line:03} of a long command\n")).collect();
        fs::write(stage.folder.join("home/hello/long.txt"), format!("run the command:\n```\n{lines}```\n"))?;
        stage.open_wide("again", columns, rows)?;
        stage.type_in("again", "acpd ask < long.txt")?;
        stage.wait_for("top", "1 waiting")?;
        stage.press("top", "g")?;
        stage.wait_for("top", "more rows: press v")?;
        show("A command of 5 KB in top", &stage.text("top")?);
        stage.press("top", "v")?;
        stage.wait_for("top", "space scroll")?;
        show("The same, opened with v", &stage.text("top")?);
    }
    for (what, config, prompt) in [
        ("In a pipe, without a provider: a direction that the built-in model understands", "", "read main.rs"),
        ("In a pipe, without a provider: anything else", "", "Why is the sky blue?"),
        ("In a pipe, with a provider that fails", FAILING, "Why is the sky blue?"),
    ] {
        let stage = Stage::build(program)?;
        page.push_str(&stage.section(what, &stage.ask_in_a_pipe(config, prompt)?));
    }
    Ok(page.trim_end().to_owned())
}

/// A provider at an address where nothing listens.
const FAILING: &str = "[models]\ndefault = \"office/large\"\n[models.providers.office]\nkind = \"openai\"\n\
                       base_url = \"http://127.0.0.1:9\"\n[[models.providers.office.models]]\nid = \"large\"\n";

/// Records the screens of a real run: a question in `ask`, and the same session in `ctl top`.
fn record(program: &Path) -> Answer<Vec<(&'static str, String)>> {
    let stage = Stage::build(program)?;
    stage.open("watching", 16)?;
    stage.type_in("watching", "acpd ask What files are in this folder?")?;
    stage.wait_for("watching", "main.rs  ")?;
    stage.open("asking", 23)?;
    stage.type_in("asking", &format!("acpd ask \"{PROMPT}\""))?;
    stage.wait_for("asking", "[y]es")?;
    stage.press("asking", "y")?;
    stage.wait_for("asking", "? Allow: cat main.rs")?;
    stage.type_in("watching", "acpd ctl top")?;
    stage.wait_for("watching", "waiting")?;
    Ok(vec![("acpd ask", stage.capture("asking")?), ("acpd ctl top", stage.capture("watching")?)])
}

/// The number of stages so far; each has its own folder.
static STAGES: AtomicU32 = AtomicU32::new(0);

/// An empty home with a small project, and a separate tmux server.
struct Stage {
    folder: PathBuf,
    program: PathBuf,
}

impl Stage {
    fn build(program: &Path) -> Answer<Self> {
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("acpd-picture-{}-{number}", std::process::id()));
        for name in ["", "home", "acpd", "home/hello"] {
            fs::DirBuilder::new().mode(0o700).create(folder.join(name))?;
        }
        fs::write(folder.join("home/hello/main.rs"), "fn main() {\n    println!(\"Hello, world!\");\n}\n")?;
        Ok(Self { folder, program: program.to_owned() })
    }

    /// A section of the page with a screen. The screen may itself contain fences.
    fn section(&self, what: &str, screen: &str) -> String {
        let screen = screen.replace(&self.folder.join("home").display().to_string(), "/home/you");
        let lines: Vec<&str> = screen.trim_end().lines().map(str::trim_end).collect();
        format!("\n## {what}\n\n````text\n{}\n````\n", lines.join("\n"))
    }

    /// What a shell shows of `ask` whose answer goes to a file: stderr, the exit status, and the
    /// file.
    fn ask_in_a_pipe(&self, config: &str, prompt: &str) -> Answer<String> {
        let home = self.folder.join("home");
        fs::create_dir_all(home.join(".config/acpd"))?;
        fs::write(home.join(".config/acpd/config.toml"), config)?;
        let output = Command::new(&self.program)
            .args(["ask", prompt])
            .current_dir(home.join("hello"))
            .env_clear()
            .envs([("HOME", home.as_path()), ("ACPD_SOCKET", &self.folder.join("acpd/acpd.sock"))])
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()?;
        let [answer, rest] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let code = output.status.code().unwrap_or_default();
        Ok(format!("$ acpd ask \"{prompt}\" > answer\n{rest}$ echo $?\n{code}\n$ cat answer\n{answer}"))
    }

    fn tmux(&self, args: &[&str]) -> Answer<String> {
        let socket = self.folder.join("tmux");
        let output = Command::new("tmux").arg("-S").arg(socket).args(["-f", "/dev/null"]).args(args).output()?;
        if !output.status.success() {
            return Err(format!("tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn open(&self, name: &str, rows: u16) -> Answer<()> {
        self.open_wide(name, COLUMNS, rows)
    }

    fn open_wide(&self, name: &str, columns: u16, rows: u16) -> Answer<()> {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let folder = self.folder.display();
        let path = format!("{}:/usr/bin:/bin", self.program.parent().unwrap_or(Path::new("/")).display());
        let shell = format!(
            "cd {folder}/home/hello && exec env -i HOME={folder}/home ACPD_SOCKET={folder}/acpd/acpd.sock PATH={path} \
             TERM=screen-256color LANG=C.UTF-8 PS1='$ ' bash --norc -i"
        );
        self.tmux(&["-u", "new-session", "-d", "-s", name, "-x", &columns, "-y", &rows, &shell])?;
        self.wait_for(name, "$")
    }

    fn type_in(&self, name: &str, line: &str) -> Answer<()> {
        // A bare name could also be the beginning of a window's name.
        self.tmux(&["send-keys", "-t", &format!("={name}:"), "-l", line])?;
        self.press(name, "Enter")
    }

    fn press(&self, name: &str, key: &str) -> Answer<()> {
        self.tmux(&["send-keys", "-t", &format!("={name}:"), key]).map(drop)
    }

    fn capture(&self, name: &str) -> Answer<String> {
        self.tmux(&["capture-pane", "-e", "-N", "-p", "-t", &format!("={name}:")])
    }

    /// The screen without colours.
    fn text(&self, name: &str) -> Answer<String> {
        self.tmux(&["capture-pane", "-p", "-t", &format!("={name}:")])
    }

    fn wait_for(&self, name: &str, text: &str) -> Answer<()> {
        let deadline = Instant::now() + SCREEN_TIMEOUT;
        while !self.text(name)?.contains(text) {
            if Instant::now() > deadline {
                return Err(format!("`{text}` did not appear:\n{}", self.capture(name)?).into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let socket = self.folder.join("acpd/acpd.sock");
        let _ = Command::new(&self.program).arg("--socket").arg(socket).args(["ctl", "stop"]).output();
        let _ = self.tmux(&["kill-server"]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Draws the windows one below the other.
fn draw(screens: &[(&str, String)]) -> String {
    let width = f32::from(COLUMNS) * LETTER + 2.0 * MARGIN;
    let mut body = String::new();
    let mut top = 0.0;
    for (title, capture) in screens {
        let lines = capture.trim_end().lines().count().max(1);
        let rows = u16::try_from(lines).unwrap_or(u16::MAX);
        let height = BAR + f32::from(rows) * LINE + MARGIN;
        body.push_str(&format!(
            "<g transform=\"translate(0 {top})\">{}</g>\n",
            window(title, capture, rows, width, height)
        ));
        top += height + MARGIN;
    }
    let height = top - MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n{body}</svg>"
    )
}

fn window(title: &str, capture: &str, rows: u16, width: f32, height: f32) -> String {
    let mut parser = Parser::new(size(rows), size(COLUMNS), 0);
    parser.process(capture.trim_end().replace('\n', "\r\n").as_bytes());
    let mut out = format!("<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#16181d\"/>\n");
    for (place, colour) in [(18, "#e0605a"), (38, "#d9a441"), (58, "#5aa55e")] {
        out.push_str(&format!("<circle cx=\"{place}\" cy=\"15\" r=\"5\" fill=\"{colour}\"/>\n"));
    }
    let middle = width / 2.0;
    out.push_str(&format!("<text x=\"{middle}\" y=\"20\" fill=\"#8b919e\" text-anchor=\"middle\">{title}</text>\n"));
    for row in 0..rows {
        let mut column = 0;
        while let Some(first) = parser.screen().cell(row, column) {
            let end = (column + 1..COLUMNS)
                .find(|next| parser.screen().cell(row, *next).is_none_or(|cell| look(cell) != look(first)))
                .unwrap_or(COLUMNS);
            let text: String = (column..end).filter_map(|at| parser.screen().cell(row, at)).map(letter).collect();
            out.push_str(&run(&look(first), &text, row, column, end - column));
            column = end;
        }
    }
    out
}

/// The style of a letter: its colour, its background, and its weight.
#[derive(PartialEq)]
struct CellStyle {
    colour: &'static str,
    behind: Option<&'static str>,
    bold: bool,
    dim: bool,
}

fn look(cell: &Cell) -> CellStyle {
    let named = |colour: Color| match colour {
        Color::Idx(1 | 9) => Some("#f07178"),
        Color::Idx(2 | 10) => Some("#8fd19e"),
        Color::Idx(3 | 11) => Some("#f2c76e"),
        Color::Idx(4 | 12) => Some("#7aa2f7"),
        Color::Idx(6 | 14) => Some("#6fc3df"),
        Color::Idx(_) | Color::Rgb(..) | Color::Default => None,
    };
    let (colour, behind) = (named(cell.fgcolor()).unwrap_or("#d8dce4"), named(cell.bgcolor()));
    let (colour, behind) = if cell.inverse() { ("#16181d", Some(colour)) } else { (colour, behind) };
    CellStyle { colour, behind, bold: cell.bold(), dim: cell.dim() }
}

fn letter(cell: &Cell) -> String {
    let text = if cell.contents().is_empty() { " " } else { cell.contents() };
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn run(look: &CellStyle, text: &str, row: u16, column: u16, columns: u16) -> String {
    let (x, y) = (MARGIN + f32::from(column) * LETTER, BAR + f32::from(row) * LINE);
    let width = f32::from(columns) * LETTER;
    let mut out = String::new();
    if let Some(behind) = look.behind {
        out.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{LINE}\" fill=\"{behind}\"/>\n"
        ));
    }
    if !text.trim().is_empty() {
        let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
        let opacity = if look.dim { " opacity=\"0.6\"" } else { "" };
        let (colour, base) = (look.colour, y + LINE - 5.0);
        out.push_str(&format!(
            "<text x=\"{x:.1}\" y=\"{base:.1}\" fill=\"{colour}\"{weight}{opacity} textLength=\"{width:.1}\" \
             xml:space=\"preserve\">{text}</text>\n"
        ));
    }
    out
}

fn size(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN)
}
