//! The moves that can happen to a session, and the configurations it may have.

use std::time::Duration;

use proptest::prelude::*;

use crate::session::{AgentLimits, SessionPolicy, Unattended, WhenBusy};

/// One thing that can happen. A move whose precondition does not hold is skipped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    Prompt,
    /// A prompt whose client wants to steer, whatever the policy is.
    Steer,
    SlashUndo,
    SlashCompact,
    CtlUndo,
    Cancel,
    WithdrawLast,
    Allow,
    Deny,
    AnswerCancelled,
    Attach,
    AttachWithEnvironment,
    Detach,
    CannotAnswer,
    DenyTimer,
    IdleTimer,
    EvictIdle,
    Close,
    Delete,
    Drain,
    Expanded,
    SteeringExpanded,
    TurnSpeaks,
    TurnCalls,
    TurnEnds,
    TurnDies,
    StaleTurnEnds,
    Planned,
    PlannedFree,
    CallEnds,
    CallDies,
    HooksAgree,
    HooksObject,
    RestoreEnds,
    WriteFails,
    Crash,
    Reopen,
    SetRoots,
    SetServers,
    KeptServers,
    ServersLost,
    ChooseModel,
    CorrectModel,
}

pub(super) fn any_move() -> impl Strategy<Value = Move> {
    use Move::*;
    let often = vec![
        Prompt,
        Steer,
        SteeringExpanded,
        Allow,
        Expanded,
        TurnCalls,
        TurnEnds,
        Planned,
        PlannedFree,
        CallEnds,
        HooksAgree,
        RestoreEnds,
        Reopen,
        CtlUndo,
    ];
    let all = vec![
        SlashUndo,
        SlashCompact,
        Cancel,
        WithdrawLast,
        Deny,
        AnswerCancelled,
        Attach,
        AttachWithEnvironment,
        Detach,
        CannotAnswer,
        DenyTimer,
        IdleTimer,
        EvictIdle,
        Close,
        Delete,
        Drain,
        TurnSpeaks,
        TurnDies,
        StaleTurnEnds,
        CallDies,
        HooksObject,
        WriteFails,
        Crash,
        SetRoots,
        SetServers,
        KeptServers,
        ServersLost,
        ChooseModel,
        CorrectModel,
    ];
    prop_oneof![2 => prop::sample::select(often), 1 => prop::sample::select(all)]
}

/// The moves around MCP servers and the turns that use them, which the moves in general combine too
/// rarely.
pub(super) fn server_move() -> impl Strategy<Value = Move> {
    use Move::*;
    prop::sample::select(vec![
        Prompt,
        Expanded,
        TurnEnds,
        HooksAgree,
        SetServers,
        ServersLost,
        KeptServers,
        AttachWithEnvironment,
        SetRoots,
    ])
}

pub(super) fn policies() -> impl Strategy<Value = SessionPolicy> {
    let busy = prop_oneof![Just(WhenBusy::Refuse), Just(WhenBusy::Queue), Just(WhenBusy::Steer)];
    let unattended = prop_oneof![
        Just(Unattended::Wait),
        Just(Unattended::Wait),
        Just(Unattended::Deny),
        Just(Unattended::DenyAfter(Duration::from_secs(1)))
    ];
    (busy, unattended).prop_map(|(when_busy, unattended)| SessionPolicy {
        agents: AgentLimits::default(),
        spending: crate::budget::SpendingLimits::default(),
        when_busy,
        unattended,
        idle_after: Duration::from_secs(600),
    })
}
