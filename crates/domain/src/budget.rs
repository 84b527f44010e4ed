//! What turns, sessions and days may spend, and what has been spent.

use std::sync::{Mutex, PoisonError};

use crate::Millis;

/// The name that the log gives to the question whether to go on beyond a limit. It is no tool that a model can call.
pub const BUDGET: &str = "budget";

/// Tokens, sent and received, and their cost in the currency of the configured prices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    pub tokens: u64,
    pub cost: f64,
}

impl std::ops::AddAssign for Spending {
    fn add_assign(&mut self, more: Self) {
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.cost += more.cost;
    }
}

/// The most that may be spent without a question. 0 stands for no limit, for tokens and for cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpendingLimits {
    pub turn: Spending,
    pub session: Spending,
    pub day: Spending,
}

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Turn,
    Session,
    Day,
}

impl Scope {
    fn describe(self) -> &'static str {
        match self {
            Scope::Turn => "this turn",
            Scope::Session => "this session",
            Scope::Day => "all sessions together today",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Scope::Turn => "turn",
            Scope::Session => "session",
            Scope::Day => "day",
        }
    }
}

/// Returns why a limit is reached, for the person; None if it is not. Each time that the person has agreed to go on,
/// `granted` times so far, the limit counts once more.
pub fn exceeded(scope: Scope, spent: Spending, limit: Spending, granted: u32) -> Option<String> {
    let (who, key) = (scope.describe(), scope.key());
    let times = granted.saturating_add(1);
    let tokens = limit.tokens.saturating_mul(u64::from(times));
    if limit.tokens > 0 && spent.tokens >= tokens {
        return Some(format!("{who}: {} tokens used, the limit is {tokens} (budget.{key}_tokens)", spent.tokens));
    }
    let cost = limit.cost * f64::from(times);
    (limit.cost > 0.0 && spent.cost >= cost)
        .then(|| format!("{who}: {:.2} spent, the limit is {cost:.2} (budget.{key}_cost)", spent.cost))
}

/// How often a limit must count once more so that what was spent is below it.
pub fn grants_needed(spent: Spending, limit: Spending) -> u32 {
    let by_tokens = spent.tokens.checked_div(limit.tokens).unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let by_cost = if limit.cost > 0.0 { (spent.cost / limit.cost).floor() as u64 } else { 0 };
    u32::try_from(by_tokens.max(by_cost)).unwrap_or(u32::MAX)
}

/// The port to what all sessions together spend in a day.
pub trait Ledger: Send + Sync + 'static {
    /// Adds what was spent just now. Returns what has been spent today.
    fn add(&self, spent: Spending) -> Spending;
}

/// A day of the calendar (UTC), counted from 1970.
pub type Day = u64;

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct DayLedger(Mutex<(Day, Spending)>);

impl DayLedger {
    /// Goes on from what was spent on this day.
    pub fn starting_with(day: Day, spent: Spending) -> Self {
        Self(Mutex::new((day, spent)))
    }

    /// Adds what was spent on this day. Returns the sum of the day; another day starts at nothing.
    pub fn add_on(&self, day: Day, spent: Spending) -> Spending {
        // Every operation leaves the numbers consistent, so a panic elsewhere does no harm.
        let mut today = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if today.0 != day {
            *today = (day, Spending::default());
        }
        today.1 += spent;
        today.1
    }

    pub fn today() -> Day {
        Millis::now().0 / 86_400_000
    }
}

impl Ledger for DayLedger {
    fn add(&self, spent: Spending) -> Spending {
        self.add_on(Self::today(), spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spending(tokens: u64, cost: f64) -> Spending {
        Spending { tokens, cost }
    }

    #[test]
    fn a_limit_is_reached_by_tokens_or_by_cost_and_counts_again_after_each_consent() {
        let limit = spending(1_000, 2.0);
        assert_eq!(exceeded(Scope::Turn, spending(999, 1.9), limit, 0), None);
        assert_eq!(
            exceeded(Scope::Turn, spending(1_000, 0.0), limit, 0).as_deref(),
            Some("this turn: 1000 tokens used, the limit is 1000 (budget.turn_tokens)")
        );
        assert_eq!(
            exceeded(Scope::Day, spending(0, 2.5), limit, 0).as_deref(),
            Some("all sessions together today: 2.50 spent, the limit is 2.00 (budget.day_cost)")
        );
        assert_eq!(exceeded(Scope::Turn, spending(1_999, 3.9), limit, 1), None);
        assert!(exceeded(Scope::Session, spending(2_000, 0.0), limit, 1).is_some());
        assert_eq!(exceeded(Scope::Session, spending(u64::MAX, 1e9), Spending::default(), 0), None);
        for spent in [spending(1_000, 0.0), spending(5_500, 1.0), spending(10, 7.0), spending(999_999, 123.4)] {
            assert_eq!(exceeded(Scope::Turn, spent, limit, grants_needed(spent, limit)), None, "{spent:?}");
        }
    }

    #[test]
    fn another_day_starts_at_nothing() {
        let ledger = DayLedger::starting_with(7, spending(10, 1.0));
        assert_eq!(ledger.add_on(7, spending(5, 0.5)), spending(15, 1.5));
        assert_eq!(ledger.add_on(8, spending(1, 0.0)), spending(1, 0.0));
    }
}
