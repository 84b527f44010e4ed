//! How a session behaves where its owner has a choice. Fixed when the session is opened.

use std::time::Duration;

/// What happens to a prompt that arrives while another activity has the session.
///
/// Inserting it into the running turn at the next request to the model would be a third variant, decided in the same
/// place as these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    Refuse,
    Queue,
}

/// What happens to a permission question while no client is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattended {
    Wait,
    Deny,
    DenyAfter(Duration),
}

#[derive(Clone, Copy, Debug)]
pub struct SessionPolicy {
    pub when_busy: WhenBusy,
    pub unattended: Unattended,
    /// How long a session without work and without clients stays in memory.
    pub idle_after: Duration,
}
