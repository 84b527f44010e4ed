//! The spending limits of turns, sessions and days, and what has been spent.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Cost, Millis};

/// The tool name under which the log records the question whether to continue beyond a limit.
/// Models cannot call it.
pub(crate) const BUDGET: &str = "budget";

/// Amounts of money by currency. Amounts in different currencies are never added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Costs(BTreeMap<String, f64>);

impl Costs {
    pub fn of(cost: Cost) -> Self {
        Self([(cost.currency, cost.amount)].into())
    }

    /// The amount in one currency.
    pub fn amount(&self, currency: &str) -> f64 {
        self.0.get(currency).copied().unwrap_or_default()
    }

    /// Replaces the amount in one currency.
    pub fn set(&mut self, cost: &Cost) {
        self.0.insert(cost.currency.clone(), cost.amount);
    }

    /// Returns the amounts that were added since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let added =
            |(currency, amount): (&String, &f64)| (currency.clone(), (amount - before.amount(currency)).max(0.0));
        Self(self.0.iter().map(added).collect())
    }

    /// The largest amount and its currency, compared as bare numbers.
    fn largest(&self) -> Option<(&str, f64)> {
        let largest = self.0.iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
        largest.map(|(currency, amount)| (currency.as_str(), *amount))
    }
}

/// Tokens, sent and received, and their cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spending {
    pub tokens: u64,
    pub costs: Costs,
}

impl std::ops::AddAssign for Spending {
    fn add_assign(&mut self, more: Self) {
        self.tokens = self.tokens.saturating_add(more.tokens);
        for (currency, amount) in more.costs.0 {
            *self.costs.0.entry(currency).or_default() += amount;
        }
    }
}

/// A limit, beyond which the user is asked before more is spent. 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpendingLimit {
    pub tokens: u64,
    /// An amount of money, which applies to each currency separately.
    pub cost: f64,
}

/// The limit of each scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpendingLimits {
    pub turn: SpendingLimit,
    pub session: SpendingLimit,
    pub day: SpendingLimit,
}

/// What a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendingScope {
    Turn,
    Session,
    Day,
}

impl SpendingScope {
    fn describe(self) -> &'static str {
        match self {
            SpendingScope::Turn => "this turn",
            SpendingScope::Session => "this session",
            SpendingScope::Day => "all sessions together today",
        }
    }

    fn key(self) -> &'static str {
        match self {
            SpendingScope::Turn => "turn",
            SpendingScope::Session => "session",
            SpendingScope::Day => "day",
        }
    }
}

/// Returns why a limit is reached, as a text for the user; None if it is not. Each of the `granted`
/// approvals to continue raises the limit by its original amount.
pub fn exceeded(scope: SpendingScope, spent: &Spending, limit: SpendingLimit, granted: u32) -> Option<String> {
    let (who, key) = (scope.describe(), scope.key());
    let times = granted.saturating_add(1);
    let tokens = limit.tokens.saturating_mul(u64::from(times));
    if limit.tokens > 0 && spent.tokens >= tokens {
        return Some(format!("{who}: {} tokens used, the limit is {tokens} (budget.{key}_tokens)", spent.tokens));
    }
    let cost = limit.cost * f64::from(times);
    let (currency, amount) = spent.costs.largest().filter(|(_, amount)| limit.cost > 0.0 && *amount >= cost)?;
    Some(format!("{who}: {amount:.2} {currency} spent, the limit is {cost:.2} (budget.{key}_cost)"))
}

/// Returns how many approvals to continue raise the limit above what was spent.
pub(crate) fn grants_needed(spent: &Spending, limit: SpendingLimit) -> u32 {
    let by_tokens = spent.tokens.checked_div(limit.tokens).unwrap_or(0);
    let amount = spent.costs.largest().map_or(0.0, |(_, amount)| amount);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let by_cost = if limit.cost > 0.0 { (amount / limit.cost).floor() as u64 } else { 0 };
    u32::try_from(by_tokens.max(by_cost)).unwrap_or(u32::MAX)
}

/// The port to the record of what all sessions together spend per day.
pub trait Ledger: Send + Sync + 'static {
    /// Adds an amount that was just spent, and returns today's total.
    fn add(&self, spent: Spending) -> Spending;
}

/// A day of the calendar (UTC), counted from 1970.
pub type Day = u64;

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct DayLedger(Mutex<(Day, Spending)>);

impl DayLedger {
    /// Creates a ledger in which this amount is already spent on this day.
    pub fn starting_with(day: Day, spent: Spending) -> Self {
        Self(Mutex::new((day, spent)))
    }

    /// Adds an amount that was spent on a day, and returns that day's total. A new day starts at
    /// zero.
    pub fn add_on(&self, day: Day, spent: Spending) -> Spending {
        let mut total = self.total_by_day();
        if total.0 != day {
            *total = (day, Spending::default());
        }
        total.1 += spent;
        total.1.clone()
    }

    /// Returns the total with the day it belongs to, which may be an earlier one than today.
    pub fn total(&self) -> (Day, Spending) {
        self.total_by_day().clone()
    }

    fn total_by_day(&self) -> MutexGuard<'_, (Day, Spending)> {
        // Every operation leaves the numbers consistent, so a panic elsewhere does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn in_currency(tokens: u64, amount: f64, currency: &str) -> Spending {
        Spending { tokens, costs: Costs::of(Cost { amount, currency: currency.to_owned() }) }
    }

    fn spending(tokens: u64, amount: f64) -> Spending {
        in_currency(tokens, amount, "USD")
    }

    #[test]
    fn a_limit_is_reached_by_tokens_or_by_cost_and_counts_again_after_each_consent() {
        let limit = SpendingLimit { tokens: 1_000, cost: 2.0 };
        assert_eq!(exceeded(SpendingScope::Turn, &spending(999, 1.9), limit, 0), None);
        assert_eq!(
            exceeded(SpendingScope::Turn, &spending(1_000, 0.0), limit, 0).as_deref(),
            Some("this turn: 1000 tokens used, the limit is 1000 (budget.turn_tokens)")
        );
        assert_eq!(
            exceeded(SpendingScope::Day, &spending(0, 2.5), limit, 0).as_deref(),
            Some("all sessions together today: 2.50 USD spent, the limit is 2.00 (budget.day_cost)")
        );
        assert_eq!(exceeded(SpendingScope::Turn, &spending(1_999, 3.9), limit, 1), None);
        assert!(exceeded(SpendingScope::Session, &spending(2_000, 0.0), limit, 1).is_some());
        assert_eq!(exceeded(SpendingScope::Session, &spending(u64::MAX, 1e9), SpendingLimit::default(), 0), None);
        for spent in [spending(1_000, 0.0), spending(5_500, 1.0), spending(10, 7.0), spending(999_999, 123.4)] {
            assert_eq!(exceeded(SpendingScope::Turn, &spent, limit, grants_needed(&spent, limit)), None, "{spent:?}");
        }
    }

    #[test]
    fn amounts_in_different_currencies_are_not_added() {
        let ledger = DayLedger::default();
        ledger.add_on(1, spending(10, 1.5));
        let today = ledger.add_on(1, in_currency(10, 1.75, "EUR"));
        assert_eq!((today.costs.amount("USD"), today.costs.amount("EUR")), (1.5, 1.75));
        let limit = SpendingLimit { tokens: 0, cost: 2.0 };
        assert_eq!(exceeded(SpendingScope::Day, &today, limit, 0), None);
        let today = ledger.add_on(1, spending(10, 0.5));
        assert!(exceeded(SpendingScope::Day, &today, limit, 0).is_some_and(|why| why.contains("2.00 USD spent")));
        let mut later = today.costs.clone();
        later.set(&Cost { amount: 2.0, currency: "EUR".to_owned() });
        let since = later.since(&today.costs);
        assert_eq!((since.amount("USD"), since.amount("EUR")), (0.0, 0.25));
    }

    #[test]
    fn a_new_day_starts_at_zero() {
        let ledger = DayLedger::starting_with(7, spending(10, 1.0));
        assert_eq!(ledger.add_on(7, spending(5, 0.5)), spending(15, 1.5));
        assert_eq!(ledger.add_on(8, spending(1, 0.0)), spending(1, 0.0));
    }
}
