//! Carries out `/worktree`, and moves a new session into the worktree that its client wants.

use std::sync::{Arc, Mutex, PoisonError};

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseActFuture, WrapFuture};
use domain::SessionId;
use domain::history::History;
use domain::session::Input;
use domain::session::slash::WorktreeCommand;
use domain::session::worktrees;
use domain::worktree::{EnteredWorktree, Worktree, WorktreeError, WorktreeRequest, Worktrees};
use futures_util::future::BoxFuture;

use super::Session;

/// Moves a session that its client does not know yet into a worktree.
#[derive(Message)]
#[rtype(result = "Result<(), WorktreeError>")]
pub(crate) struct EnterWorktree {
    /// The name of the worktree; None for one derived from the session's id.
    pub(crate) name: Option<String>,
}

/// The sessions whose move into a worktree is not written yet. Their worktrees are not abandoned,
/// although the history does not know the move.
static MOVING: Mutex<Vec<SessionId>> = Mutex::new(Vec::new());

/// Protects the worktree of a session from being taken over, from the start of its move until the
/// move is written.
struct MoveInProgress(SessionId);

impl MoveInProgress {
    fn begin(session: &SessionId) -> Self {
        MOVING.lock().unwrap_or_else(PoisonError::into_inner).push(session.clone());
        Self(session.clone())
    }
}

impl Drop for MoveInProgress {
    fn drop(&mut self) {
        let mut moving = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = moving.iter().position(|session| *session == self.0) {
            moving.swap_remove(own);
        }
    }
}

fn is_moving(session: &SessionId) -> bool {
    MOVING.lock().unwrap_or_else(PoisonError::into_inner).contains(session)
}

const IN_BACKGROUND: &str = "Commands of this session still run in the background. End them before you remove the \
                             worktree.";

const UNRECORDED: &str = "the session's move could not be recorded";

impl Session {
    /// Carries out a command about worktrees that needs git.
    pub(super) fn run_worktree_command(&mut self, command: WorktreeCommand, ctx: &mut Context<Self>) {
        let own = self.state().folders.worktree.clone();
        let (port, request) = (self.ports.worktrees.clone(), self.worktree_request());
        match (&command, own) {
            (WorktreeCommand::Enter(name), _) => {
                let enter = self.enter_worktree(name.clone());
                ctx.spawn(enter.into_actor(self).map(move |entered, this, ctx| {
                    let text = match entered {
                        Ok((entered, moving)) => this.record_entry(entered, moving, ctx),
                        Err(error) => worktrees::refused(&command, &error),
                    };
                    this.deliver(Input::SlashCommandDone { text, setting: None }, ctx);
                }));
            }
            (WorktreeCommand::Status, own) => {
                let look = async move {
                    let status = port.status(request, own.clone()).await?;
                    Ok(worktrees::describe(own.as_ref(), &status))
                };
                self.answer_when_done(command, Box::pin(look), ctx);
            }
            (WorktreeCommand::Merge, Some(own)) => {
                let merge = async move {
                    let commits = port.merge(request, own.clone()).await?;
                    Ok(worktrees::merged(&own, commits))
                };
                self.answer_when_done(command, Box::pin(merge), ctx);
            }
            (WorktreeCommand::Remove { .. }, own) => self.remove_worktree(command, own, ctx),
            (WorktreeCommand::Merge | WorktreeCommand::Leave, _) => {
                unreachable!("the machine carries these out itself")
            }
        }
    }

    fn worktree_request(&self) -> WorktreeRequest {
        WorktreeRequest {
            session: self.id().clone(),
            folder: self.state().folders.opened_in.clone(),
            environment: self.environment(),
            take_from: None,
        }
    }

    /// Ends the slash command with the text of this work, or the reason why it was refused.
    fn answer_when_done(
        &mut self,
        command: WorktreeCommand,
        work: BoxFuture<'static, Result<String, WorktreeError>>,
        ctx: &mut Context<Self>,
    ) {
        ctx.spawn(work.into_actor(self).map(move |done, this, ctx| {
            let text = done.unwrap_or_else(|error| worktrees::refused(&command, &error));
            this.deliver(Input::SlashCommandDone { text, setting: None }, ctx);
        }));
    }

    /// Creates or finds the worktree. One that names another session is taken over if that session
    /// does not work in it: a crash may have ended it before it was recorded, or the session was
    /// deleted.
    fn enter_worktree(
        &self,
        name: Option<String>,
    ) -> BoxFuture<'static, Result<(EnteredWorktree, MoveInProgress), WorktreeError>> {
        let (port, history) = (self.ports.worktrees.clone(), self.ports.history.clone());
        let request = self.worktree_request();
        let moving = MoveInProgress::begin(self.id());
        Box::pin(async move {
            let entered = match port.enter(request.clone(), name.clone()).await {
                Err(WorktreeError::Taken { name: taken, owner }) if is_abandoned(&*history, &owner, &taken).await => {
                    port.enter(WorktreeRequest { take_from: Some(owner), ..request }, name).await
                }
                entered => entered,
            };
            Ok((entered?, moving))
        })
    }

    /// Records the move and returns what the user reads about it.
    fn record_entry(&mut self, entered: EnteredWorktree, moving: MoveInProgress, ctx: &mut Context<Self>) -> String {
        let text = worktrees::entered(&entered);
        self.deliver(Input::Move(Some(Box::new(entered))), ctx);
        let recorded = self.recorded();
        let until_written = async move {
            let _ = recorded.written().await;
            drop(moving);
        };
        ctx.spawn(until_written.into_actor(self));
        text
    }

    fn remove_worktree(&mut self, command: WorktreeCommand, own: Option<Worktree>, ctx: &mut Context<Self>) {
        let WorktreeCommand::Remove { name, with_ignored } = &command else { return };
        let (name, with_ignored) = (name.clone(), *with_ignored);
        let own = own.filter(|own| name.as_ref().is_none_or(|name| *name == own.name));
        if own.is_some() && self.works_in_background() {
            self.deliver(Input::SlashCommandDone { text: IN_BACKGROUND.to_owned(), setting: None }, ctx);
            return;
        }
        let (port, history) = (self.ports.worktrees.clone(), self.ports.history.clone());
        let request = self.worktree_request();
        let check = async move {
            let worktree = match (own, name) {
                (Some(own), _) => own,
                (None, name) => port.find(request.clone(), name.unwrap_or_default()).await?,
            };
            let request = check_removal(&port, &*history, request, &worktree, with_ignored).await?;
            Ok((request, worktree))
        };
        ctx.spawn(check.into_actor(self).map(move |checked, this, ctx| match checked {
            Ok((request, worktree)) => this.remove_checked(command, request, worktree, ctx),
            Err(error) => {
                let text = worktrees::refused(&command, &error);
                this.deliver(Input::SlashCommandDone { text, setting: None }, ctx);
            }
        }));
    }

    /// Removes a worktree after the session has left it. The move is written first, so a crash
    /// never leaves a session in a folder that is gone.
    fn remove_checked(
        &mut self,
        command: WorktreeCommand,
        request: WorktreeRequest,
        worktree: Worktree,
        ctx: &mut Context<Self>,
    ) {
        if self.state().folders.worktree.as_ref() == Some(&worktree) {
            self.deliver(Input::Move(None), ctx);
        }
        let (port, recorded) = (self.ports.worktrees.clone(), self.recorded());
        let remove = async move {
            recorded.written().await.map_err(|_| WorktreeError::Git(UNRECORDED.to_owned()))?;
            let removed = port.remove(request, worktree.clone()).await?;
            Ok(worktrees::removed(&worktree, &removed))
        };
        self.answer_when_done(command, Box::pin(remove), ctx);
    }
}

/// Checks a removal. Returns the request with which the worktree may be removed.
async fn check_removal(
    port: &Arc<dyn Worktrees>,
    history: &dyn History,
    request: WorktreeRequest,
    worktree: &Worktree,
    with_ignored: bool,
) -> Result<WorktreeRequest, WorktreeError> {
    match port.check_removal(request.clone(), worktree.clone(), with_ignored).await {
        Ok(()) => Ok(request),
        Err(WorktreeError::Taken { name, owner }) if is_abandoned(history, &owner, &name).await => {
            let request = WorktreeRequest { take_from: Some(owner), ..request };
            port.check_removal(request.clone(), worktree.clone(), with_ignored).await?;
            Ok(request)
        }
        Err(error) => Err(error),
    }
}

/// Whether the session that a worktree names does not work in it.
async fn is_abandoned(history: &dyn History, owner: &SessionId, name: &str) -> bool {
    if is_moving(owner) {
        return false;
    }
    match history.find(owner.clone()).await {
        Ok(Some(meta)) => meta.worktree.is_none_or(|own| own.name != name),
        Ok(None) => true,
        Err(_) => false,
    }
}

impl Handler<EnterWorktree> for Session {
    type Result = ResponseActFuture<Self, Result<(), WorktreeError>>;

    fn handle(&mut self, EnterWorktree { name }: EnterWorktree, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.enter_worktree(name).into_actor(self).map(|entered, this, ctx| {
            let (entered, moving) = entered?;
            this.record_entry(entered, moving, ctx);
            Ok(())
        }))
    }
}
