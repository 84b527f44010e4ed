//! `ctl top`: all sessions on a screen that refreshes, with keys to steer them.
//!
//! One loop: look at the daemon, draw, wait for a key until it is time for the next look. A daemon that goes away is looked
//! for again. The terminal is put back however this ends, a panic included.
#![allow(clippy::print_stdout, reason = "with --json each look is a line")]

mod picture;
mod reading;
mod view;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use domain::card::SessionDetails;
use domain::{Choice, SessionId};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wire::method;

use self::picture::{Picture, Shown};
use self::reading::Reading;
use super::{Visit, status, tail};
use crate::cli::Top;
use crate::commands::paint::{Paint, json_line};
use crate::commands::{Ending, which};
use crate::paths::Places;

/// How long a daemon may take to answer before the screen says that it does not.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often signals are looked at.
const STEP: Duration = Duration::from_millis(200);

pub(super) async fn run(visit: Visit, places: &Places, args: &Top) -> anyhow::Result<Ending> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let every = Duration::from_secs(args.every.into());
    let json = visit.json;
    let mut top = Screen { places, visit: Some(visit), shown: Shown::default(), stop };
    if json {
        return top.print(every).await;
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("top needs a terminal; `acpd ctl sessions` prints a table, and `acpd ctl top --json` a line a look");
    }
    let mut stage = Stage::enter()?;
    loop {
        top.look().await;
        let next = Instant::now() + every;
        loop {
            stage.draw(&mut top.shown)?;
            match top.key(next)? {
                Wish::Look => break,
                Wish::Draw => {}
                Wish::Leave => {
                    if terminal_is_gone(Duration::ZERO)? {
                        // There is nothing to put back, and ratatui would panic over it.
                        std::mem::forget(stage);
                    }
                    return Ok(Ending::Done);
                }
                Wish::Answer(choice) => top.answer(choice).await,
                Wish::Read => top.read().await,
                Wish::Cancel => top.cancel().await,
                Wish::Open => {
                    if let Some(session) = top.shown.selected().map(|card| card.id.to_string()) {
                        drop(stage);
                        top.follow(&session).await;
                        stage = Stage::enter()?;
                        break;
                    }
                }
            }
        }
    }
}

/// The terminal while it is ours.
struct Stage(DefaultTerminal);

impl Stage {
    /// Takes the whole screen. A panic puts the terminal back before it says what happened.
    fn enter() -> anyhow::Result<Self> {
        Ok(Self(ratatui::try_init().context("cannot take over the terminal")?))
    }

    fn draw(&mut self, shown: &mut Shown) -> anyhow::Result<()> {
        let paint = Paint::stdout();
        self.0.draw(|frame| view::draw(frame, shown, paint)).context("cannot draw")?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = ratatui::try_restore();
    }
}

/// Waits until something can be read, or this long; true if the terminal was closed, which crossterm would read for ever.
fn terminal_is_gone(patience: Duration) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    let mut source = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut source, Some(&patience)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot look at the terminal"),
    }
    Ok(source[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

/// Why a question that has the screen cannot be allowed yet.
fn unread(reading: &Reading) -> String {
    match reading.cut {
        0 => format!("{} more rows below: read on with space or the arrows, then allow", reading.left().max(1)),
        cut => format!(
            "{cut} bytes are missing; see `acpd ctl export {}`, then `acpd ctl allow --unseen`",
            reading.session
        ),
    }
}

/// What a key, or the clock, asks for.
enum Wish {
    Look,
    Draw,
    Leave,
    Answer(Choice),
    /// Show a question on the whole screen.
    Read,
    Cancel,
    Open,
}

struct Screen<'a> {
    places: &'a Places,
    visit: Option<Visit>,
    shown: Shown,
    stop: Arc<AtomicBool>,
}

impl Screen<'_> {
    /// Looks again; what was seen last stays on the screen if nobody answers.
    async fn look(&mut self) {
        match self.picture().await {
            Ok(picture) => self.shown.replace(picture),
            Err(error) => {
                self.visit = None;
                self.shown.trouble = Some(format!("{error:#}"));
            }
        }
    }

    async fn picture(&mut self) -> anyhow::Result<Picture> {
        let visit = self.visit()?;
        let look = async {
            let status = status::look(visit).await?;
            let sessions = which::in_memory(&mut visit.client).await?;
            Ok(Picture::of(status, sessions))
        };
        tokio::time::timeout(PATIENCE, look).await.context("the daemon does not answer")?
    }

    fn visit(&mut self) -> anyhow::Result<&mut Visit> {
        match &mut self.visit {
            Some(visit) => Ok(visit),
            none => Ok(none.insert(Visit::begin(self.places, false)?)),
        }
    }

    /// Waits for a key until it is time for the next look.
    fn key(&mut self, next: Instant) -> anyhow::Result<Wish> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Wish::Leave);
            }
            let Some(left) = next.checked_duration_since(Instant::now()) else { return Ok(Wish::Look) };
            if terminal_is_gone(Duration::ZERO)? {
                return Ok(Wish::Leave);
            }
            if !event::poll(Duration::ZERO).context("cannot read the terminal")? {
                // A signal, such as that of another size, ends the wait early.
                terminal_is_gone(left.min(STEP))?;
                continue;
            }
            match event::read().context("cannot read the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => return Ok(self.wish(key)),
                Event::Resize(..) => return Ok(Wish::Draw),
                _ => {}
            }
        }
    }

    fn wish(&mut self, key: KeyEvent) -> Wish {
        self.shown.said = None;
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Leave;
        }
        if let Some(reading) = &mut self.shown.reading {
            match key.code {
                KeyCode::Char('a') => return Wish::Answer(Choice::AllowOnce),
                KeyCode::Char('d') => return Wish::Answer(Choice::RejectOnce),
                KeyCode::Down | KeyCode::Char('j') => reading.move_by(1),
                KeyCode::Up | KeyCode::Char('k') => reading.move_by(-1),
                KeyCode::PageDown | KeyCode::Char(' ') => reading.page(1),
                KeyCode::PageUp => reading.page(-1),
                KeyCode::Char('q') | KeyCode::Esc => self.shown.reading = None,
                _ => {}
            }
            return Wish::Draw;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Leave,
            KeyCode::Char('a') => return Wish::Answer(Choice::AllowOnce),
            KeyCode::Char('d') => return Wish::Answer(Choice::RejectOnce),
            KeyCode::Char('v') => return Wish::Read,
            KeyCode::Char('c') => return Wish::Cancel,
            KeyCode::Char('o') | KeyCode::Enter => return Wish::Open,
            KeyCode::Char('r') => return Wish::Look,
            KeyCode::Down | KeyCode::Char('j') => self.shown.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.shown.move_by(-1),
            KeyCode::Home | KeyCode::Char('g') => self.shown.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.shown.move_by(isize::MAX),
            _ => {}
        }
        Wish::Draw
    }

    /// Answers the question that is shown, and no other: it may have been settled meanwhile, and the next one come up. One
    /// that was not shown as a whole is shown first.
    async fn answer(&mut self, choice: Choice) {
        let (session, question, title) = match (&self.shown.reading, self.shown.selected()) {
            (Some(reading), _) => {
                if choice.allows() && !reading.is_read() {
                    self.shown.said = Some(unread(reading));
                    return;
                }
                (reading.session.clone(), reading.question.clone(), reading.title.clone())
            }
            (None, Some(card)) => {
                let Some(question) = card.questions.first() else {
                    self.shown.said = Some("this session asks nothing".to_owned());
                    return;
                };
                if choice.allows() && self.shown.whole.as_ref() != Some(&question.id) {
                    return self.read().await;
                }
                (card.id.clone(), question.id.clone(), question.title.clone())
            }
            (None, None) => return,
        };
        self.shown.reading = None;
        let done = format!("{}: {title}", if choice.allows() { "allowed" } else { "denied" });
        let params = json!({ "sessionId": session, "questionId": question, "optionId": choice.id() });
        self.steer(method::ANSWER, params, done).await;
    }

    /// Shows the question of the selected session on the whole screen.
    async fn read(&mut self) {
        let Some(card) = self.shown.selected() else { return };
        let Some(wanted) = card.questions.first().map(|question| question.id.clone()) else {
            self.shown.said = Some("this session asks nothing".to_owned());
            return;
        };
        match self.details(&card.id.clone()).await {
            Ok(SessionDetails { card, .. }) => {
                let question = card.questions.iter().find(|question| question.id == wanted);
                self.shown.reading = question.map(|question| Reading::of(&card, question));
            }
            Err(error) => self.shown.said = Some(format!("{error:#}").replace('\n', " ")),
        }
    }

    /// The list has a lower limit for a question than the details of one session.
    async fn details(&mut self, session: &SessionId) -> anyhow::Result<SessionDetails> {
        let visit = self.visit()?;
        let call = async {
            visit.introduce().await?;
            visit.client.call(method::SESSION, json!({ "sessionId": session })).await
        };
        tokio::time::timeout(PATIENCE, call).await.context("the daemon does not answer")?
    }

    async fn cancel(&mut self) {
        let Some(card) = self.shown.selected() else { return };
        if card.turn_started.is_none() {
            self.shown.said = Some("nothing runs in this session".to_owned());
            return;
        }
        let params = json!({ "sessionId": card.id });
        self.steer(method::CANCEL, params, "cancelled".to_owned()).await;
    }

    async fn steer(&mut self, method: &str, params: Value, done: String) {
        let said = match self.tell(method, params).await {
            Ok(()) => done,
            Err(error) => format!("{error:#}").replace('\n', " "),
        };
        self.look().await;
        self.shown.said = Some(said);
    }

    async fn tell(&mut self, method: &str, params: Value) -> anyhow::Result<()> {
        let visit = self.visit()?;
        let call = async {
            // The session's log names who answered.
            visit.introduce().await?;
            visit.client.call::<Value>(method, params).await
        };
        tokio::time::timeout(PATIENCE, call).await.context("the daemon does not answer")??;
        Ok(())
    }

    /// Shows a session on the ordinary screen until Ctrl-C.
    async fn follow(&mut self, session: &str) {
        println!("--- session {session}; Ctrl-C goes back ---");
        let followed = match Visit::begin(self.places, false) {
            Ok(visit) => tail::run(visit, session).await,
            Err(error) => Err(error),
        };
        self.shown.said = followed.err().map(|error| format!("{error:#}"));
        // That Ctrl-C was meant for the session that was shown.
        self.stop.store(false, Ordering::Relaxed);
    }

    /// A line for each look, until a signal.
    async fn print(&mut self, every: Duration) -> anyhow::Result<Ending> {
        while !self.stop.load(Ordering::Relaxed) {
            println!("{}", json_line(&serde_json::to_string(&self.picture().await?)?));
            let next = Instant::now() + every;
            while !self.stop.load(Ordering::Relaxed) && Instant::now() < next {
                tokio::time::sleep(STEP.min(every)).await;
            }
        }
        Ok(Ending::Done)
    }
}
