//! The model of a session for which the user chose none: corrected when its provider turns out
//! not to have it, and explained where the user would not expect it.

use super::effect::Effect;
use super::machine::SessionMachine;
use crate::ModelId;

impl SessionMachine {
    /// Whether the model is a default that may still be replaced.
    fn may_correct_model(&self) -> bool {
        !self.state.settings.model_chosen && !self.evicting && !self.is_hosted()
    }

    /// Waits once for the lists of slow providers, when the first client attaches. They may arrive
    /// after the session was opened.
    pub(super) fn await_models(&mut self) {
        if self.may_correct_model() {
            self.effect(Effect::AwaitModels);
        }
    }

    /// Checks the model before a turn starts. Remarks come with the first prompt.
    pub(super) fn review_model(&mut self) {
        if self.may_correct_model() {
            let remarks = self.state.messages <= 1;
            self.effect(Effect::ReviewModel { remarks });
        }
    }

    pub(super) fn correct_model(&mut self, model: ModelId) {
        if self.may_correct_model() {
            self.set_model(model);
        }
    }
}
