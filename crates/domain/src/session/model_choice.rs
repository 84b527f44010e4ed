//! The model of a session for which the user chose none: corrected when its provider turns out
//! not to have it, and explained where the user would not expect it.

use super::effect::Effect;
use super::machine::SessionMachine;
use crate::ModelId;

/// The most remarks that a session shows until it is loaded again.
const MAX_REMARKS: usize = 16;

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

    /// Checks the model before a turn starts. From now on remarks are shown.
    pub(super) fn review_model(&mut self) {
        if self.may_correct_model() {
            self.clients.remarks.get_or_insert_default();
            self.effect(Effect::ReviewModel);
        }
    }

    /// Shows the remarks that were not shown before: a provider may fail at any time.
    pub(super) fn show_remarks(&mut self, remarks: Vec<String>) {
        if !self.may_correct_model() {
            return;
        }
        for text in remarks {
            let Some(shown) = &mut self.clients.remarks else { return };
            if shown.len() < MAX_REMARKS && shown.insert(text.clone()) {
                self.notice_passing(text);
            }
        }
    }

    pub(super) fn correct_model(&mut self, model: ModelId) {
        if self.may_correct_model() {
            self.set_model(model);
        }
    }
}
