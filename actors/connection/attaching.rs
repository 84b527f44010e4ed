//! Attaches this client to a session: a translator for what the client may see, a cursor that
//! starts where the client stopped, and the state taken over from an earlier attach to the same
//! session.

use actix::{AsyncContext, Context};
use domain::instructions::SlashCommandCard;
use domain::state::SessionSettings;
use domain::{LogPosition, SessionId};
use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::sync::watch;
use wire::answer_data::SessionOptions;
use wire::translator::{TranslatorStart, Viewer};
use wire::{Id, Translator};

use super::Connection;
use super::attachment::{
    AnswerWhen, AttachState, Attachment, CommandsChanged, CursorYield, PendingLoad, PendingReplies, Resume,
    SlashCommands,
};
use super::client_requests::AskClient;
use super::rpc_methods::OpenedSession;
use crate::cursor::Cursor;
use crate::mail::tell;
use crate::session::Attached;

/// The state that an earlier attach to the same session passes on to the next one.
#[derive(Default)]
struct EarlierAttachment {
    waiting: PendingReplies,
    asks: Vec<AskClient>,
    opened: bool,
    /// The number of the last event that was sent to a resuming bridge.
    sent_up_to: u64,
}

impl Connection {
    /// Starts a cursor for a session that this client may now see.
    pub(super) fn attach(&mut self, opened: OpenedSession, answer: AnswerWhen, ctx: &mut Context<Self>) {
        let OpenedSession { session, addr, mut attached, commands, servers } = opened;
        let session = &session;
        let resumes = matches!(answer, AnswerWhen::Resume(_));
        let translator = self.translator(session, &mut attached, resumes);
        let EarlierAttachment { mut waiting, asks, opened, sent_up_to } = self.take_over(session, ctx);
        let opened = opened || matches!(answer, AnswerWhen::Now);
        let resume = resumes.then(|| self.resume(&mut attached, sent_up_to));
        let is_awaited = resume.as_ref().is_some_and(|resume| !resume.pending.is_empty());
        waiting.loading.extend(load(answer, attached.head));
        // Pending close requests are done: the session was closed, and is open again.
        let closed = std::mem::take(&mut waiting.closing);
        tell(&addr, servers);
        self.opening.attaches += 1;
        let attach = self.opening.attaches;
        let cursor = self.start_cursor(session, &attached, ctx);
        let changes = changes(attached.served.clone());
        let name = session.clone();
        let changes = ctx.add_stream(changes.map(move |()| CommandsChanged { session: name.clone(), attach }));
        let Attached { guard, tail, next, head, life, messages, served, folders, .. } = attached;
        let attachment = Attachment {
            attach,
            version: self.version(),
            addr: addr.clone(),
            tail,
            commands: SlashCommands { own: commands, served, changes },
            translator,
            seen: LogPosition { life, number: next.saturating_sub(1) },
            start: AttachState {
                head: LogPosition { life, number: head },
                messages,
                with_positions: self.client.bridge.is_some(),
                resume,
                worktree: folders.worktree,
            },
            opened,
            ended: false,
            waiting,
            asks,
            cursor,
            guard,
        };
        self.attachments.insert(session.clone(), attachment);
        self.publish();
        for request in closed {
            self.answer(&request, Ok(json!({})), ctx);
        }
        if is_awaited {
            self.return_editor(session, &addr, ctx);
        }
        // With nothing to replay, the cursor is already past the head.
        self.answer_load(session, next - 1, ctx);
        self.send_due_requests(session);
    }

    fn translator(&self, session: &SessionId, attached: &mut Attached, resumes: bool) -> Translator {
        let extras = self.extras();
        let SessionSettings { mode, approval, model, thought, hosted, model_chosen: _ } = attached.settings.clone();
        let view = TranslatorStart {
            session: session.clone(),
            cwd: attached.folders.cwd.clone(),
            next: attached.next,
            turn: attached.turn.take(),
            background: std::mem::take(&mut attached.background),
            viewer: Viewer {
                connection: self.id.clone(),
                bridge: self.client.bridge.clone(),
                with_positions: self.client.bridge.is_some(),
                capabilities: self.capabilities(),
                extras,
            },
            session_options: SessionOptions {
                models: self.models_with(&model),
                mode,
                approval,
                model,
                thought,
                agent: hosted.as_ref().map(|hosted| hosted.agent.clone()),
                hosted: hosted.map(|hosted| hosted.offer),
                switches: self.capabilities().switches,
                extras,
            },
            head: attached.head,
            own_from: if resumes { attached.next } else { attached.head + 1 },
            open_calls: std::mem::take(&mut attached.open_calls),
            delegated: std::mem::take(&mut attached.delegated),
            open_questions: std::mem::take(&mut attached.open_questions),
        };
        Translator::new(self.version(), view)
    }

    /// Ends an earlier attach to the same session.
    fn take_over(&mut self, session: &SessionId, ctx: &mut Context<Self>) -> EarlierAttachment {
        self.cancel_cursor(session, ctx);
        let Some(Attachment { mut waiting, asks, opened, start, seen, .. }) = self.attachments.remove(session) else {
            return EarlierAttachment::default();
        };
        // This replay asks the questions again.
        waiting.unasked.clear();
        EarlierAttachment { waiting, asks, opened, sent_up_to: start.resume.map_or(0, |_| seen.number) }
    }

    /// Determines which prompts of a resuming bridge are answered on this connection. Those that an
    /// earlier attach delivered are already answered.
    fn resume(&self, attached: &mut Attached, sent_up_to: u64) -> Resume {
        let bridge = &self.client.bridge;
        let prompted = std::mem::take(&mut attached.prompted).into_iter();
        let mine = prompted.filter(|origin| bridge.is_some() && origin.bridge == *bridge);
        Resume { after: sent_up_to.max(attached.next - 1), pending: mine.map(|origin| origin.request).collect() }
    }

    fn start_cursor(&self, session: &SessionId, attached: &Attached, ctx: &mut Context<Self>) -> actix::SpawnHandle {
        let ports = self.runtime.ports();
        let cursor = Cursor {
            session: session.clone(),
            tail: attached.tail.clone(),
            history: ports.history.clone(),
            gate: self.outbox.gate(ports.settings.outbox_limit),
            next: attached.next,
        };
        let (session, attach) = (session.clone(), self.opening.attaches);
        ctx.add_stream(cursor.stream().map(move |passed| CursorYield { session: session.clone(), attach, passed }))
    }
}

/// The request to answer when the cursor has passed all earlier events, if there is one.
fn load(answer: AnswerWhen, head: u64) -> Option<PendingLoad> {
    let (id, resumes): (Id, bool) = match answer {
        AnswerWhen::Now => return None,
        AnswerWhen::Load(id) => (id, false),
        AnswerWhen::Resume(id) => (id, true),
    };
    Some(PendingLoad { head, id, resumes })
}

/// Yields whenever the slash commands of the session's MCP servers have changed.
fn changes(served: watch::Receiver<Vec<SlashCommandCard>>) -> impl Stream<Item = ()> {
    stream::unfold(served, |mut served| async move {
        served.changed().await.ok()?;
        Some(((), served))
    })
}
