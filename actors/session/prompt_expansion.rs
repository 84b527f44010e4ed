//! What a prompt names and must be read before the model hears it: the slash commands of the project and its user, which
//! stand for a text, and what MCP servers have. Until then the turn can be cancelled like any other.

use actix::{ActorFutureExt, AsyncContext, Context, SpawnHandle, WrapFuture};
use domain::briefing::{Command, Expansion, Workplace};
use domain::mcp::Prepared;
use domain::{Content, EventKind, MessageId, StopReason, TurnId};

use super::turns::{Phase, RunningTurn};
use super::{Session, slash_commands};
use crate::turn::Purpose;

/// A prompt whose command, or what else it names, is being read.
pub(super) struct Reading {
    work: SpawnHandle,
    asked: Asked,
}

/// The message of a prompt.
pub(super) struct Asked {
    pub(super) turn: TurnId,
    pub(super) message: MessageId,
    pub(super) content: Vec<Content>,
}

impl Session {
    pub(super) fn workplace(&self) -> Workplace {
        Workplace { cwd: self.state.cwd.clone(), extra_roots: self.state.extra_roots.clone(), mode: self.state.mode }
    }

    /// Has the model answer a prompt, once what it names has been read: a command of the project, and what servers have.
    pub(super) fn read_prompt(&mut self, asked: Asked, ctx: &mut Context<Self>) {
        let call = slash_commands::call(&asked.content);
        let command = call.map(|call| {
            let briefing = &self.ports.briefing;
            (call.name.clone(), briefing.expand(self.workplace(), call), briefing.commands(self.workplace()))
        });
        let served = self.ports.toolbox.commands(self.id());
        let prepare = self.ports.toolbox.prepare(self.id(), &self.state.cwd, &asked.content);
        if command.is_none() && prepare.is_none() {
            return self.ask_model(asked, Prepared::default(), ctx);
        }
        let turn = asked.turn.clone();
        let read = async move {
            let prepared = match prepare {
                Some(prepare) => prepare.await,
                None => Prepared::default(),
            };
            let Some((name, command, commands)) = command else { return prepared };
            match command.await {
                // The project's own word counts before a server's.
                Some(Expansion::Text(text)) => Prepared { stands_for: Some(text), refusal: None, ..prepared },
                Some(Expansion::Withheld(why)) => Prepared { refusal: Some(why), ..prepared },
                None if prepared.stands_for.is_some() || prepared.refusal.is_some() => prepared,
                None => Prepared { refusal: unknown_command(&name, commands.await, served), ..prepared },
            }
        };
        let work = ctx.spawn(read.into_actor(self).map(|prepared, this, ctx| {
            if let Some(asked) = this.take_unread() {
                this.go_on_with(asked, prepared, ctx);
            }
        }));
        self.turn = Some(RunningTurn::new(turn, Phase::Reading(Reading { work, asked })));
        self.publish();
    }

    fn go_on_with(&mut self, asked: Asked, mut prepared: Prepared, ctx: &mut Context<Self>) {
        let notices = std::mem::take(&mut prepared.notices);
        for text in notices {
            self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
        }
        match prepared.refusal.take() {
            None => self.ask_model(asked, prepared, ctx),
            Some(why) => {
                self.record_message(asked, true, Prepared::default(), ctx);
                self.notice(why, ctx);
                self.end_turn(StopReason::EndTurn, ctx);
            }
        }
    }

    /// The turn is to end before its command was read: the message is recorded as it was typed.
    /// False if nothing is being read.
    pub(super) fn stop_reading(&mut self, reason: &StopReason, ctx: &mut Context<Self>) -> bool {
        if let Some(RunningTurn { phase: Phase::Reading(reading), .. }) = &self.turn {
            ctx.cancel_future(reading.work);
        }
        let Some(asked) = self.take_unread() else { return false };
        let aside = slash_commands::call(&asked.content).is_some();
        self.record_message(asked, aside, Prepared::default(), ctx);
        if let Some(running) = &mut self.turn {
            running.phase = Phase::Stopping(reason.clone());
        }
        self.end_if_stopped(ctx);
        true
    }

    fn take_unread(&mut self) -> Option<Asked> {
        let running = self.turn.as_mut()?;
        match std::mem::replace(&mut running.phase, Phase::Obeying) {
            Phase::Reading(reading) => Some(reading.asked),
            other => {
                running.phase = other;
                None
            }
        }
    }

    /// Records the message and has the model answer it.
    fn ask_model(&mut self, mut asked: Asked, mut prepared: Prepared, ctx: &mut Context<Self>) {
        if let Some(prompt) = prepared.prompt.take() {
            asked.content = prompt;
        }
        let turn = asked.turn.clone();
        let after = self.record_message(asked, false, prepared, ctx);
        self.begin_turn(turn, Purpose::Answer, after, ctx);
    }

    pub(super) fn record_message(
        &mut self,
        asked: Asked,
        aside: bool,
        prepared: Prepared,
        ctx: &mut Context<Self>,
    ) -> u64 {
        let Asked { turn, message, content } = asked;
        let Prepared { stands_for, context, .. } = prepared;
        let number = self.append(EventKind::UserMessage { turn, message, content, aside, stands_for, context }, ctx);
        self.entitle(ctx);
        number
    }

    /// Says which commands there are, those of the project included.
    pub(super) fn help_in_turn(&mut self, turn: TurnId, ctx: &mut Context<Self>) {
        let look = self.ports.briefing.commands(self.workplace());
        self.obey_for_a_while(turn);
        ctx.spawn(look.into_actor(self).map(|mut commands, this, ctx| {
            commands.extend(this.ports.toolbox.commands(this.id()));
            this.notice(help(&offered(commands)), ctx);
            this.end_turn(StopReason::EndTurn, ctx);
        }));
    }
}

/// All commands: ours, and those of the project that do not bear the name of one of ours.
pub(crate) fn offered(custom: Vec<Command>) -> Vec<Command> {
    let ours = slash_commands::COMMANDS.iter().map(|(name, description, hint)| Command {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        hint: hint.map(str::to_owned),
    });
    let is_ours = |command: &Command| slash_commands::COMMANDS.iter().any(|(name, ..)| *name == command.name);
    ours.chain(custom.into_iter().filter(|command| !is_ours(command))).collect()
}

/// What is said of a command that nobody knows. None where the text is rather about a path, which is for the model.
fn unknown_command(name: &str, mut custom: Vec<Command>, served: Vec<Command>) -> Option<String> {
    if slash_commands::is_path(name) {
        return None;
    }
    custom.extend(served);
    let known = offered(custom);
    let near = slash_commands::near(name, known.iter().map(|command| command.name.as_str()));
    let near = match near.as_slice() {
        [] => String::new(),
        names => format!(" Did you mean {}?", names.join(" or ")),
    };
    Some(format!("There is no command `/{name}`.{near} `/help` lists all of them; nothing was sent to the model."))
}

fn help(commands: &[Command]) -> String {
    let lines = commands.iter().map(|Command { name, description, hint }| {
        let hint = hint.as_ref().map(|hint| format!(" [{hint}]")).unwrap_or_default();
        format!("- `/{name}{hint}`: {description}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
