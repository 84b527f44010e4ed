//! `ctl top`: shows all sessions on a screen that refreshes, with keys to control them.
//!
//! A single loop queries the daemon, draws, and waits for a key until the next query is due. If the
//! daemon goes away, the loop keeps trying to reconnect. The terminal is restored on every exit,
//! including a panic.
#![allow(clippy::print_stdout, reason = "the heading of a followed session is printed")]

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use domain::card::SessionDetails;
use domain::inquiry::{Inquiry, InquiryChoice};
use domain::{Choice, QuestionId, SessionId};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use terminal::style::Colors;
use terminal::table::one_line;
use terminal::top::{QuestionPager, Snapshot, TopState};
use wire::method;

use super::{DaemonClient, status, tail};
use crate::cli;
use crate::commands::json_output::print_line;
use crate::commands::{Ending, session_lookup};
use crate::paths::Paths;

/// How long a daemon may take to answer before the screen reports a problem.
const DEADLINE: Duration = Duration::from_secs(2);

/// The interval between two checks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn run(daemon: DaemonClient, places: &Paths, args: &cli::TopArgs) -> anyhow::Result<Ending> {
    let stop = StopFlags::register()?;
    let every = Duration::from_secs(args.every.into());
    let json = daemon.json;
    let mut top = Top { places, daemon: Some(daemon), state: TopState::default(), stop };
    if json {
        return top.print(every).await;
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!(
            "`acpd ctl top` needs a terminal; use `acpd ctl sessions` for a table, or `acpd ctl top --json` for one line per refresh"
        );
    }
    let mut full_screen = FullScreen::enter()?;
    loop {
        top.look().await;
        let next = Instant::now() + every;
        loop {
            full_screen.draw(&mut top.state)?;
            match top.key(next)? {
                KeyAction::Look => break,
                KeyAction::Draw => {}
                KeyAction::Leave => {
                    if terminal_is_gone(Duration::ZERO)? {
                        // There is nothing to restore, and ratatui would panic if it tried.
                        std::mem::forget(full_screen);
                    }
                    return Ok(Ending::Done);
                }
                KeyAction::Answer(answer) => top.answer(answer).await,
                KeyAction::Read => top.read().await,
                KeyAction::Cancel => top.cancel().await,
                KeyAction::Open => {
                    if let Some(session) = top.state.selected().map(|card| card.id.to_string()) {
                        drop(full_screen);
                        top.follow(&session).await;
                        if top.stop.any() {
                            return Ok(Ending::Done);
                        }
                        full_screen = FullScreen::enter()?;
                        break;
                    }
                }
            }
        }
    }
}

/// The terminal in full-screen mode.
struct FullScreen(DefaultTerminal);

impl FullScreen {
    /// Takes the whole screen. A panic restores the terminal before its message is printed.
    fn enter() -> anyhow::Result<Self> {
        let taken = Self(ratatui::try_init().context("cannot take over the terminal")?);
        // Pasted text must not be read as keys, of which some answer questions.
        execute!(io::stdout(), EnableBracketedPaste).context("cannot take over the terminal")?;
        Ok(taken)
    }

    fn draw(&mut self, state: &mut TopState) -> anyhow::Result<()> {
        let colors = Colors::stdout();
        self.0.draw(|frame| terminal::top::draw(frame, state, colors)).context("cannot draw")?;
        Ok(())
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), DisableBracketedPaste);
        let _ = ratatui::try_restore();
    }
}

/// Waits for input, at most this long. Returns true if the terminal was closed; crossterm would
/// then read forever.
fn terminal_is_gone(timeout: Duration) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    let mut source = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut source, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot wait for input from the terminal"),
    }
    Ok(source[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

/// Returns why a question that fills the screen cannot be allowed yet.
fn unread(pager: &QuestionPager) -> String {
    match pager.cut {
        0 => format!("{} more rows below: read on with space or the arrows, then allow", pager.left().max(1)),
        cut => {
            format!("{cut} bytes are missing; see `acpd ctl export {}`, then `acpd ctl allow --unseen`", pager.session)
        }
    }
}

/// The action for a key press, or for the end of the wait.
enum KeyAction {
    Look,
    Draw,
    Leave,
    Answer(KeyAnswer),
    /// Show a question that fills the screen.
    Read,
    Cancel,
    Open,
}

/// The answer that a key stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyAnswer {
    Allow,
    Deny,
    /// The choice of an inquiry with this number, counted from 1.
    Number(usize),
}

impl KeyAnswer {
    /// The answer of a digit other than 0.
    fn numbered(digit: char) -> Self {
        Self::Number(digit.to_digit(10).map_or(1, |number| number as usize))
    }
}

/// The question that is on the screen.
struct Shown {
    session: SessionId,
    question: QuestionId,
    title: String,
    inquiry: Option<Inquiry>,
}

/// Lists the keys for the choices of an inquiry.
fn how_to_answer(session: &SessionId, choices: &[InquiryChoice]) -> String {
    if choices.is_empty() {
        return format!("answer it with `acpd ctl answer {session} --text TEXT`");
    }
    let keys = choices.iter().enumerate().map(|(at, choice)| format!("{} {}", at + 1, one_line(&choice.label)));
    format!("choose with a number: {}", keys.collect::<Vec<_>>().join("  "))
}

struct Top<'a> {
    places: &'a Paths,
    daemon: Option<DaemonClient>,
    state: TopState,
    stop: StopFlags,
}

/// The signals that have arrived.
struct StopFlags {
    /// Ctrl-C, which also leaves a session that is being followed.
    interrupted: Arc<AtomicBool>,
    /// A signal that ends `top` wherever it is.
    ended: Arc<AtomicBool>,
}

impl StopFlags {
    fn register() -> anyhow::Result<Self> {
        let flags = Self { interrupted: Arc::default(), ended: Arc::default() };
        for (signal, flag) in [(SIGINT, &flags.interrupted), (SIGHUP, &flags.ended), (SIGTERM, &flags.ended)] {
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(flags)
    }

    fn any(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.ended.load(Ordering::Relaxed)
    }
}

impl Top<'_> {
    /// Queries the daemon. If it does not answer, the last snapshot stays on the screen.
    async fn look(&mut self) {
        match self.snapshot().await {
            Ok(snapshot) => self.state.replace(snapshot),
            Err(error) => {
                self.daemon = None;
                self.state.trouble = Some(format!("{error:#}"));
            }
        }
    }

    async fn snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let daemon = self.daemon()?;
        let look = async {
            let status = status::look(daemon).await?;
            let sessions = session_lookup::in_memory(&mut daemon.client).await?;
            Ok(Snapshot { memory: system::resident_memory(status.pid), status, sessions })
        };
        tokio::time::timeout(DEADLINE, look).await.context("the daemon is not responding")?
    }

    fn daemon(&mut self) -> anyhow::Result<&mut DaemonClient> {
        match &mut self.daemon {
            Some(daemon) => Ok(daemon),
            none => Ok(none.insert(DaemonClient::begin(self.places, false)?)),
        }
    }

    /// Waits for a key until the next query is due.
    fn key(&mut self, next: Instant) -> anyhow::Result<KeyAction> {
        loop {
            if self.stop.any() {
                return Ok(KeyAction::Leave);
            }
            let Some(left) = next.checked_duration_since(Instant::now()) else { return Ok(KeyAction::Look) };
            if terminal_is_gone(Duration::ZERO)? {
                return Ok(KeyAction::Leave);
            }
            if !event::poll(Duration::ZERO).context("cannot read the terminal")? {
                // A signal, such as a change of the terminal's size, ends the wait early.
                terminal_is_gone(left.min(POLL_INTERVAL))?;
                continue;
            }
            match event::read().context("cannot read the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => return Ok(self.action(key)),
                Event::Resize(..) => return Ok(KeyAction::Draw),
                Event::Paste(text) if self.state.filtering => {
                    self.state.filter.extend(text.chars().filter(|letter| !letter.is_control()));
                    return Ok(KeyAction::Draw);
                }
                _ => {}
            }
        }
    }

    fn action(&mut self, key: KeyEvent) -> KeyAction {
        self.state.message = None;
        let confirming = self.state.confirming.take();
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return KeyAction::Leave;
        }
        if let Some(pager) = &mut self.state.pager {
            match key.code {
                KeyCode::Char('a') => return KeyAction::Answer(KeyAnswer::Allow),
                KeyCode::Char('d') => return KeyAction::Answer(KeyAnswer::Deny),
                KeyCode::Char(digit @ '1'..='9') => return KeyAction::Answer(KeyAnswer::numbered(digit)),
                KeyCode::Down | KeyCode::Char('j') => pager.move_by(1),
                KeyCode::Up | KeyCode::Char('k') => pager.move_by(-1),
                KeyCode::PageDown | KeyCode::Char(' ') => pager.page(1),
                KeyCode::PageUp => pager.page(-1),
                KeyCode::Char('q') | KeyCode::Esc => self.state.pager = None,
                _ => {}
            }
            return KeyAction::Draw;
        }
        if self.state.filtering {
            self.filter(key.code);
            return KeyAction::Draw;
        }
        if std::mem::take(&mut self.state.help) {
            return KeyAction::Draw;
        }
        match key.code {
            KeyCode::Esc if !self.state.filter.is_empty() => self.filter(KeyCode::Esc),
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::Leave,
            KeyCode::Char('?') | KeyCode::Char('h') => self.state.help = true,
            KeyCode::Char('/') => self.state.filtering = true,
            KeyCode::Char('s') => {
                self.state.order = self.state.order.next();
                self.state.choose();
                self.state.message = Some(format!("sorted by {}", self.state.order.name()));
            }
            KeyCode::Char('a') => return KeyAction::Answer(KeyAnswer::Allow),
            KeyCode::Char('d') => return KeyAction::Answer(KeyAnswer::Deny),
            KeyCode::Char(digit @ '1'..='9') => return KeyAction::Answer(KeyAnswer::numbered(digit)),
            KeyCode::Char('v') => return KeyAction::Read,
            KeyCode::Char('c') => return self.confirm_cancel(confirming),
            KeyCode::Char('o') | KeyCode::Enter => return KeyAction::Open,
            KeyCode::Char('r') => return KeyAction::Look,
            KeyCode::Down | KeyCode::Char('j') => self.state.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.state.move_by(-1),
            KeyCode::Home | KeyCode::Char('g') => self.state.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.state.move_by(isize::MAX),
            _ => {}
        }
        KeyAction::Draw
    }

    /// Applies a key to the filter.
    fn filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.state.filter.push(letter),
            KeyCode::Backspace => drop(self.state.filter.pop()),
            KeyCode::Enter => self.state.filtering = false,
            KeyCode::Esc => {
                self.state.filtering = false;
                self.state.filter.clear();
            }
            _ => {}
        }
        self.state.choose();
    }

    /// Cancels on the second press of the key for the same session.
    fn confirm_cancel(&mut self, confirming: Option<SessionId>) -> KeyAction {
        let Some(card) = self.state.selected() else { return KeyAction::Draw };
        if card.turn_started.is_none() || confirming.as_ref() == Some(&card.id) {
            return KeyAction::Cancel;
        }
        let title = card.title.clone().unwrap_or_else(|| card.id.to_string());
        self.state.confirming = Some(card.id.clone());
        self.state.message = Some(format!("press c again to cancel: {title}"));
        KeyAction::Draw
    }

    /// Answers the question that is shown and no other: it may have been answered meanwhile, and
    /// the next one may be open.
    async fn answer(&mut self, answer: KeyAnswer) {
        let Some(Shown { session, question, title, inquiry }) = self.shown_question(answer).await else { return };
        let choices = inquiry.as_ref().map(|inquiry| inquiry.choices.as_slice());
        let (option, done) = match (answer, choices) {
            (KeyAnswer::Allow, None) => (Choice::AllowOnce.id().to_owned(), format!("allowed: {title}")),
            (KeyAnswer::Deny, None) => (Choice::RejectOnce.id().to_owned(), format!("denied: {title}")),
            (KeyAnswer::Deny, Some(_)) => (Choice::RejectOnce.id().to_owned(), format!("declined: {title}")),
            (KeyAnswer::Number(_), None) => {
                self.state.message = Some("a number answers only a question with choices".to_owned());
                return;
            }
            (KeyAnswer::Allow, Some(choices)) => {
                self.state.message = Some(how_to_answer(&session, choices));
                return;
            }
            (KeyAnswer::Number(number), Some(choices)) => match choices.get(number - 1) {
                Some(choice) => (choice.id.clone(), format!("answered: {}", choice.label)),
                None => {
                    self.state.message = Some(how_to_answer(&session, choices));
                    return;
                }
            },
        };
        self.state.pager = None;
        let params = json!({ "sessionId": session, "questionId": question, "optionId": option });
        self.control(method::ANSWER, params, done).await;
    }

    /// Returns the question that an answer is for. A question that was not completely shown can
    /// only be denied; it is shown first.
    async fn shown_question(&mut self, answer: KeyAnswer) -> Option<Shown> {
        let allows = answer != KeyAnswer::Deny;
        if let Some(pager) = &self.state.pager {
            if allows && !pager.is_read() {
                self.state.message = Some(unread(pager));
                return None;
            }
            return Some(Shown {
                session: pager.session.clone(),
                question: pager.question.clone(),
                title: pager.title.clone(),
                inquiry: pager.inquiry.clone(),
            });
        }
        let card = self.state.selected()?;
        let Some(question) = card.questions.first() else {
            self.state.message = Some("this session has no open question".to_owned());
            return None;
        };
        if allows && self.state.whole.as_ref() != Some(&question.id) {
            self.read().await;
            return None;
        }
        Some(Shown {
            session: card.id.clone(),
            question: question.id.clone(),
            title: question.title.clone(),
            inquiry: question.inquiry.clone(),
        })
    }

    /// Shows the selected session's question on the whole screen.
    async fn read(&mut self) {
        let Some(card) = self.state.selected() else { return };
        let Some(wanted) = card.questions.first().map(|question| question.id.clone()) else {
            self.state.message = Some("this session has no open question".to_owned());
            return;
        };
        match self.details(&card.id.clone()).await {
            Ok(SessionDetails { card, .. }) => {
                let question = card.questions.iter().find(|question| question.id == wanted);
                self.state.pager = question.map(|question| QuestionPager::of(&card, question));
            }
            Err(error) => self.state.message = Some(format!("{error:#}").replace('\n', " ")),
        }
    }

    /// Requests the details of a session, which contain more of a question than the list does.
    async fn details(&mut self, session: &SessionId) -> anyhow::Result<SessionDetails> {
        let daemon = self.daemon()?;
        let call = async {
            daemon.introduce().await?;
            daemon.client.call(method::SESSION, json!({ "sessionId": session })).await
        };
        tokio::time::timeout(DEADLINE, call).await.context("the daemon is not responding")?
    }

    async fn cancel(&mut self) {
        let Some(card) = self.state.selected() else { return };
        if card.turn_started.is_none() {
            self.state.message = Some("this session is idle".to_owned());
            return;
        }
        let params = json!({ "sessionId": card.id });
        self.control(method::CANCEL, params, "cancelled".to_owned()).await;
    }

    /// Sends a request about a session, and shows `done` or the error.
    async fn control(&mut self, method: &str, params: Value, done: String) {
        let said = match self.request(method, params).await {
            Ok(()) => done,
            Err(error) => format!("{error:#}").replace('\n', " "),
        };
        self.look().await;
        self.state.message = Some(said);
    }

    async fn request(&mut self, method: &str, params: Value) -> anyhow::Result<()> {
        let daemon = self.daemon()?;
        let call = async {
            // The session's log names the client that answered.
            daemon.introduce().await?;
            daemon.client.call::<Value>(method, params).await
        };
        tokio::time::timeout(DEADLINE, call).await.context("the daemon is not responding")??;
        Ok(())
    }

    /// Shows a session on the ordinary screen until Ctrl-C.
    async fn follow(&mut self, session: &str) {
        println!("--- session {session}; Ctrl-C goes back ---");
        let followed = match DaemonClient::begin(self.places, false) {
            Ok(daemon) => tail::run(daemon, session).await,
            Err(error) => Err(error),
        };
        self.state.message = followed.err().map(|error| format!("{error:#}"));
        // The user pressed Ctrl-C to leave the session, not `top`.
        self.stop.interrupted.store(false, Ordering::Relaxed);
    }

    /// Prints one line per query, until a signal.
    async fn print(&mut self, every: Duration) -> anyhow::Result<Ending> {
        while !self.stop.any() {
            print_line(&self.snapshot().await?);
            let next = Instant::now() + every;
            while !self.stop.any() && Instant::now() < next {
                tokio::time::sleep(POLL_INTERVAL.min(every)).await;
            }
        }
        Ok(Ending::Done)
    }
}
