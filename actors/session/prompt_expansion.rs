//! Reads what a prompt refers to before the model is asked: the custom slash commands of the
//! project and of the user, which stand for a text, and the resources and prompts of MCP servers.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use domain::instructions::{Expansion, SessionContext, SlashCommandCard, Workspace, environment_block};
use domain::mcp::PreparedPrompt;
use domain::session::{Input, PromptMessage, slash};
use domain::{Content, similar_names};
use futures_util::future::{BoxFuture, OptionFuture, join};

use super::Session;

impl Session {
    pub(super) fn workspace(&self) -> Workspace {
        let state = self.state();
        Workspace {
            cwd: state.folders.cwd.clone(),
            extra_roots: state.folders.extra_roots.clone(),
            mode: state.settings.mode,
        }
    }

    pub(super) fn session_context(&self) -> SessionContext {
        SessionContext {
            workspace: self.workspace(),
            approval: self.state().settings.approval,
            left_out: self.left_out_tools(self.state().settings.mode),
            environment: self.environment(),
        }
    }

    /// Reads what a prompt refers to: a custom slash command, and items of MCP servers. A prompt
    /// that refers to nothing is ready at once.
    pub(super) fn expand_prompt(&mut self, message: &PromptMessage, ctx: &mut Context<Self>) -> Option<Input> {
        let Some(read) = self.expansion(&message.content) else {
            return Some(Input::PromptExpanded(PreparedPrompt::default()));
        };
        self.work.expansion = Some(ctx.spawn(read.into_actor(self).map(|prepared, this, ctx| {
            this.work.expansion = None;
            this.deliver(Input::PromptExpanded(prepared), ctx);
        })));
        None
    }

    /// Reads what a steering prompt refers to, while the running turn continues.
    pub(super) fn expand_steering(&mut self, message: PromptMessage, ctx: &mut Context<Self>) -> Option<Input> {
        let PromptMessage { turn: prompt, content, .. } = message;
        let Some(read) = self.expansion(&content) else {
            return Some(Input::SteeringExpanded { prompt, prepared: PreparedPrompt::default() });
        };
        ctx.spawn(read.into_actor(self).map(move |prepared, this, ctx| {
            this.deliver(Input::SteeringExpanded { prompt, prepared }, ctx);
        }));
        None
    }

    /// Reads what a message refers to. None if it refers to nothing.
    fn expansion(&self, content: &[Content]) -> Option<BoxFuture<'static, PreparedPrompt>> {
        let command = slash::call(content).map(|call| {
            let instructions = &self.ports.instructions;
            (call.name.clone(), instructions.expand(self.workspace(), call), instructions.commands(self.workspace()))
        });
        let served = self.ports.toolbox.commands(self.id());
        let prepare = self.ports.toolbox.prepare(self.id(), &self.state().folders.cwd, content);
        let facts = self.ports.instructions.environment_facts(self.session_context());
        if command.is_none() && prepare.is_none() && facts.is_none() {
            return None;
        }
        let known = self.state().conversation.environment().map(str::to_owned);
        Some(Box::pin(async move {
            let (prepared, facts) = join(OptionFuture::from(prepare), OptionFuture::from(facts)).await;
            let mut prepared = prepared.unwrap_or_default();
            let changed = facts.filter(|facts| !facts.is_empty() && known.as_ref() != Some(facts));
            prepared.context.extend(changed.map(environment_block));
            let Some((name, command, commands)) = command else { return prepared };
            match command.await {
                // The project's own text takes precedence over a server's.
                Some(Expansion::Text(text)) => PreparedPrompt { stands_for: Some(text), refusal: None, ..prepared },
                Some(Expansion::Withheld(why)) => PreparedPrompt { refusal: Some(why), ..prepared },
                None if prepared.stands_for.is_some() || prepared.refusal.is_some() => prepared,
                None => PreparedPrompt { refusal: unknown_command(&name, commands.await, served), ..prepared },
            }
        }))
    }

    /// Lists the skills and custom agents of the session's folder.
    pub(super) fn list_library(&mut self, ctx: &mut Context<Self>) {
        let look = self.ports.instructions.library(self.workspace());
        ctx.spawn(look.into_actor(self).map(|library, this, ctx| {
            this.deliver(Input::SlashCommandDone { text: library.describe(), setting: None }, ctx);
        }));
    }

    /// Lists all slash commands, including those of the project and of MCP servers.
    pub(super) fn list_commands(&mut self, ctx: &mut Context<Self>) {
        let look = self.ports.instructions.commands(self.workspace());
        ctx.spawn(look.into_actor(self).map(|mut commands, this, ctx| {
            commands.extend(this.ports.toolbox.commands(this.id()));
            let text = help(&offered(commands));
            this.deliver(Input::SlashCommandDone { text, setting: None }, ctx);
        }));
    }
}

/// All slash commands: the built-in ones, and every other one whose name is not that of a built-in
/// one.
pub(crate) fn offered(custom: Vec<SlashCommandCard>) -> Vec<SlashCommandCard> {
    let ours = slash::COMMANDS.iter().map(|(name, description, hint)| SlashCommandCard {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        hint: hint.map(str::to_owned),
    });
    let is_ours = |command: &SlashCommandCard| slash::COMMANDS.iter().any(|(name, ..)| *name == command.name);
    ours.chain(custom.into_iter().filter(|command| !is_ours(command))).collect()
}

/// The answer to an unknown slash command. None if the text looks like a path, which goes to the
/// model.
fn unknown_command(name: &str, mut custom: Vec<SlashCommandCard>, served: Vec<SlashCommandCard>) -> Option<String> {
    if slash::is_path(name) {
        return None;
    }
    custom.extend(served);
    let known = offered(custom);
    let near = similar_names::nearest(name, known.iter().map(|command| command.name.as_str()));
    let near: Vec<String> = near.into_iter().map(|name| format!("`/{name}`")).collect();
    let near = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
    Some(format!("There is no command `/{name}`.{near} `/help` lists all of them; nothing was sent to the model."))
}

fn help(commands: &[SlashCommandCard]) -> String {
    let lines = commands.iter().map(|SlashCommandCard { name, description, hint }| {
        let hint = hint.as_ref().map(|hint| format!(" [{hint}]")).unwrap_or_default();
        format!("- `/{name}{hint}`: {description}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
