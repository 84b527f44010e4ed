//! The built-in slash commands that need more than the session's state.

use actix::Context;
use domain::ModelId;
use domain::event::Setting;
use domain::session::Input;
use domain::session::slash::{self, SlashCommand};

use super::Session;

impl Session {
    pub(super) fn run_slash_command(&mut self, command: SlashCommand, ctx: &mut Context<Self>) -> Option<Input> {
        let (text, setting) = match command {
            SlashCommand::Help => {
                self.list_commands(ctx);
                return None;
            }
            SlashCommand::Skills => {
                self.list_library(ctx);
                return None;
            }
            SlashCommand::Model(None) => (self.list_models(), None),
            SlashCommand::Model(Some(id)) => {
                let model = ModelId::from(id.as_str());
                if self.ports.models.offers(&model, &self.environment()) {
                    (format!("The model is now {id}."), Some(Setting::Model(model)))
                } else {
                    (format!("There is no model `{id}`. {}", self.list_models()), None)
                }
            }
            SlashCommand::Worktree(command) => {
                self.run_worktree_command(command, ctx);
                return None;
            }
            SlashCommand::Mcp => (self.describe_servers(), None),
            SlashCommand::Status | SlashCommand::Mode(_) | SlashCommand::Compact | SlashCommand::Restore(_) => {
                unreachable!("the machine carries these out itself")
            }
        };
        Some(Input::SlashCommandDone { text, setting })
    }

    fn list_models(&self) -> String {
        let models = self.ports.models.list(&self.environment());
        slash::listing("model", self.state().settings.model.as_str(), models.iter().map(|model| model.id.as_str()))
    }
}
