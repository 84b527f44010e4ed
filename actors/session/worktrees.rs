//! Carries out `/worktree`, and moves a new session into the worktree that its client wants.

use std::sync::{Arc, Mutex, PoisonError};

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseActFuture, WrapFuture};
use domain::SessionId;
use domain::history::History;
use domain::session::Input;
use domain::session::slash::WorktreeCommand;
use domain::session::worktrees;
use domain::tool::Toolbox;
use domain::worktree::{
    EnteredWorktree, StopSignal, Worktree, WorktreeError, WorktreeRequest, WorktreeStatus, Worktrees,
};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::Session;

/// Moves a session that its client does not know yet into a worktree.
#[derive(Message)]
#[rtype(result = "Result<NewWorktree, WorktreeError>")]
pub(crate) struct EnterWorktree {
    /// The name of the worktree; None for one derived from the session's id.
    pub(crate) name: Option<String>,
}

/// A worktree that a new session has entered, and the request with which it can be removed.
pub(crate) struct NewWorktree {
    pub(crate) entered: EnteredWorktree,
    pub(crate) request: WorktreeRequest,
}

/// A worktree that is ready for the session.
struct Entry {
    entered: EnteredWorktree,
    moving: MoveInProgress,
    /// A text about worktrees whose sessions are gone.
    abandoned: Option<String>,
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
        let (port, history) = (self.ports.worktrees.clone(), self.ports.history.clone());
        let request = self.worktree_request();
        match (&command, own) {
            (WorktreeCommand::Enter(name), _) => {
                let enter = self.enter_worktree(request, name.clone());
                ctx.spawn(enter.into_actor(self).map(move |entered, this, ctx| {
                    let text = match entered {
                        Ok(Entry { entered, moving, abandoned }) => {
                            let text = this.record_entry(entered, moving, ctx);
                            [Some(text), abandoned].into_iter().flatten().collect::<Vec<_>>().join(" ")
                        }
                        Err(error) => worktrees::refused(&command, &error),
                    };
                    this.deliver(Input::SlashCommandDone { text, setting: None }, ctx);
                }));
            }
            (WorktreeCommand::Status, own) => {
                let look = async move {
                    let status = port.status(request, own.clone()).await?;
                    Ok(worktrees::describe(own.as_ref(), &with_owners(status, &*history).await))
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
            (WorktreeCommand::Remove { .. }, own) => self.remove_worktree(command, request, own, ctx),
            (WorktreeCommand::Merge | WorktreeCommand::Leave, _) => {
                unreachable!("the machine carries these out itself")
            }
        }
    }

    /// Builds a request whose git commands end when the slash command is stopped, or when the
    /// session ends.
    fn worktree_request(&mut self) -> WorktreeRequest {
        let (stop, mut stopped) = watch::channel(false);
        self.work.git = Some(stop);
        let stop_requested = async move {
            // An error means that the session has ended.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        WorktreeRequest {
            session: self.id().clone(),
            folder: self.state().folders.opened_in.clone(),
            environment: self.environment(),
            take_from: None,
            stop: StopSignal::new(stop_requested),
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
        request: WorktreeRequest,
        name: Option<String>,
    ) -> BoxFuture<'static, Result<Entry, WorktreeError>> {
        let (port, history) = (self.ports.worktrees.clone(), self.ports.history.clone());
        let moving = MoveInProgress::begin(self.id());
        Box::pin(async move {
            let entered = match port.enter(request.clone(), name.clone()).await {
                Err(WorktreeError::Taken { name: taken, owner }) if is_abandoned(&*history, &owner, &taken).await => {
                    port.enter(WorktreeRequest { take_from: Some(owner), ..request.clone() }, name).await
                }
                entered => entered,
            };
            let entered = entered?;
            // The worktree can be used without the list, so an error is ignored.
            let status = port.status(request, None).await.unwrap_or_default();
            let abandoned = worktrees::abandoned(&with_owners(status, &*history).await.others);
            Ok(Entry { entered, moving, abandoned })
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

    fn remove_worktree(
        &mut self,
        command: WorktreeCommand,
        request: WorktreeRequest,
        own: Option<Worktree>,
        ctx: &mut Context<Self>,
    ) {
        let WorktreeCommand::Remove { name, with_ignored } = &command else { return };
        let (name, with_ignored) = (name.clone(), *with_ignored);
        let own = own.filter(|own| name.as_ref().is_none_or(|name| *name == own.name));
        // A command may have been started before the session left the worktree.
        if self.works_in_background() {
            self.deliver(Input::SlashCommandDone { text: IN_BACKGROUND.to_owned(), setting: None }, ctx);
            return;
        }
        let (port, history) = (self.ports.worktrees.clone(), self.ports.history.clone());
        let check = async move {
            let worktree = match (own, name) {
                (Some(own), _) => own,
                (None, name) => port.find(request.clone(), name.unwrap_or_default()).await?,
            };
            let request = check_removal(&port, &*history, request, &worktree, with_ignored).await?;
            Ok((request, worktree))
        };
        ctx.spawn(check.into_actor(self).map(move |checked, this, ctx| match checked {
            Ok((request, worktree)) => this.remove_checked(command, Removal { request, worktree, with_ignored }, ctx),
            Err(error) => {
                let text = worktrees::refused(&command, &error);
                this.deliver(Input::SlashCommandDone { text, setting: None }, ctx);
            }
        }));
    }

    /// Removes a worktree after the session has left it. The move is written first, so a crash
    /// never leaves a session in a folder that is gone. A session whose worktree could not be
    /// removed moves back.
    fn remove_checked(&mut self, command: WorktreeCommand, removal: Removal, ctx: &mut Context<Self>) {
        let folders = &self.state().folders;
        let back = folders.worktree.as_ref().filter(|own| **own == removal.worktree).map(|own| EnteredWorktree {
            worktree: own.clone(),
            folder: folders.cwd.clone(),
            existed: true,
            changes_left_behind: false,
            remains: None,
        });
        if back.is_some() {
            self.deliver(Input::Move(None), ctx);
        }
        let (port, toolbox, recorded) = (self.ports.worktrees.clone(), self.ports.toolbox.clone(), self.recorded());
        let remove = async move {
            recorded.written().await.map_err(|_| WorktreeError::Git(UNRECORDED.to_owned()))?;
            removal.carry_out(&*port, &*toolbox).await
        };
        ctx.spawn(remove.into_actor(self).map(move |done, this, ctx| {
            let text = done.unwrap_or_else(|error| {
                if let Some(back) = back {
                    this.deliver(Input::Move(Some(Box::new(back))), ctx);
                }
                worktrees::refused(&command, &error)
            });
            this.deliver(Input::SlashCommandDone { text, setting: None }, ctx);
        }));
    }
}

/// The removal of a worktree, after its first check.
struct Removal {
    request: WorktreeRequest,
    worktree: Worktree,
    with_ignored: bool,
}

impl Removal {
    /// Ends what still runs in the worktree, checks again what that may have written, and removes
    /// the worktree. Returns what the user reads.
    async fn carry_out(self, port: &dyn Worktrees, toolbox: &dyn Toolbox) -> Result<String, WorktreeError> {
        let Self { request, worktree, with_ignored } = self;
        if !toolbox.leave_folder(&request.session, worktree.root.clone()).await {
            return Err(WorktreeError::InUse(worktree.root));
        }
        port.check_removal(request.clone(), worktree.clone(), with_ignored).await?;
        let removed = port.remove(request, worktree.clone()).await?;
        Ok(worktrees::removed(&worktree, &removed))
    }
}

/// Finds out which of the sessions to which worktrees belong are gone.
async fn with_owners(mut status: WorktreeStatus, history: &dyn History) -> WorktreeStatus {
    for other in &mut status.others {
        if let Some(owner) = other.owner.clone().filter(|owner| !is_moving(owner)) {
            other.owner_is_gone = match history.find(owner).await {
                // Its move was not recorded, so the request that created it was never answered.
                Ok(Some(meta)) => meta.messages == 0 && meta.worktree.is_none_or(|own| own.name != other.name),
                Ok(None) => true,
                Err(_) => false,
            };
        }
    }
    status
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
    type Result = ResponseActFuture<Self, Result<NewWorktree, WorktreeError>>;

    fn handle(&mut self, EnterWorktree { name }: EnterWorktree, _: &mut Context<Self>) -> Self::Result {
        let request = self.worktree_request();
        let removal = WorktreeRequest { stop: StopSignal::never(), ..request.clone() };
        Box::pin(self.enter_worktree(request, name).into_actor(self).map(|entered, this, ctx| {
            let Entry { entered, moving, abandoned } = entered?;
            this.record_entry(entered.clone(), moving, ctx);
            if let Some(text) = abandoned {
                this.deliver(Input::Notice { text }, ctx);
            }
            Ok(NewWorktree { entered, request: removal })
        }))
    }
}
