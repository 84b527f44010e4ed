//! `[budget]`: how much may be spent before the user is asked whether to continue.

use domain::budget::{SpendingLimit, SpendingLimits};
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetConfig {
    turn_tokens: u64,
    turn_cost: f64,
    session_tokens: u64,
    session_cost: f64,
    day_tokens: u64,
    day_cost: f64,
}

impl BudgetConfig {
    pub fn limits(&self) -> SpendingLimits {
        SpendingLimits {
            turn: SpendingLimit { tokens: self.turn_tokens, cost: self.turn_cost },
            session: SpendingLimit { tokens: self.session_tokens, cost: self.session_cost },
            day: SpendingLimit { tokens: self.day_tokens, cost: self.day_cost },
        }
    }

    /// Returns the first key whose value is invalid, and the reason.
    pub(super) fn invalid_value(&self) -> Option<(&'static str, String)> {
        let costs = [
            ("budget.turn_cost", self.turn_cost),
            ("budget.session_cost", self.session_cost),
            ("budget.day_cost", self.day_cost),
        ];
        let wrong = costs.into_iter().find(|(_, cost)| !cost.is_finite() || *cost < 0.0)?;
        Some((wrong.0, format!("must be 0 or more, is {}", wrong.1)))
    }
}
