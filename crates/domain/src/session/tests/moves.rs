//! The moves that can happen to a session, and the configurations it may have.

use std::time::Duration;

use proptest::prelude::*;

use crate::session::{AgentLimits, BusyPolicy, SessionPolicy, UnattendedPolicy};

/// One thing that can happen. A move whose precondition does not hold is skipped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    Prompt,
    /// A prompt whose client wants to steer, whatever the policy is.
    Steer,
    SlashUndo,
    SlashCompact,
    /// A slash command that the actor runs.
    SlashHelp,
    SlashCommandEnds,
    CtlUndo,
    Cancel,
    WithdrawLast,
    Allow,
    Deny,
    AnswerCancelled,
    Attach,
    /// A bridge attaches over another connection than before.
    BridgeReturns,
    /// A prompt arrives that the bridge sent over its earlier connection.
    LatePrompt,
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
    /// One response makes two calls, which are carried out side by side.
    TurnCallsTwice,
    /// One response makes two calls, of which the second waits for the first.
    TurnQueuesCall,
    /// The turn makes the call that waited.
    TurnCallsNext,
    TurnEnds,
    TurnDies,
    StaleTurnEnds,
    Planned,
    PlannedFree,
    CallEnds,
    CallDies,
    StaleCallReports,
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

/// Moves in any order. Some of them are stages, which lead to a state that single moves reach too
/// rarely.
pub(super) fn moves() -> impl Strategy<Value = Vec<Move>> {
    let single = any_move().prop_map(|step| vec![step]);
    prop::collection::vec(prop_oneof![5 => single, 1 => stage()], 1..40).prop_map(|parts| parts.concat())
}

/// The moves that lead from an idle session to one state.
fn stage() -> impl Strategy<Value = Vec<Move>> {
    use Move::*;
    prop::sample::select(vec![
        // The hooks decide.
        vec![Prompt, Expanded, TurnEnds],
        // The hooks decide about a turn after an earlier one, whose hooks report late.
        vec![Prompt, Expanded, TurnEnds, StaleTurnEnds, HooksAgree, Prompt, Expanded, TurnEnds, StaleTurnEnds],
        // A question is open.
        vec![Prompt, Expanded, TurnCalls, Planned],
        // A question is open beside a call that runs.
        vec![Prompt, Expanded, TurnCallsTwice, Planned, PlannedFree],
        // The daemon stops while a client is asked and a call runs.
        vec![Attach, Prompt, Expanded, TurnCallsTwice, Planned, PlannedFree, Drain],
        // One of two questions is answered after a crash.
        vec![Prompt, Expanded, TurnCallsTwice, Planned, Planned, Crash, Allow],
        // A message waits for the outcomes of two calls.
        vec![Prompt, Expanded, TurnCallsTwice, PlannedFree, PlannedFree, Steer, SteeringExpanded],
        // A message waits for a call that has not begun.
        vec![Prompt, Expanded, TurnQueuesCall, PlannedFree, Steer, SteeringExpanded, CallEnds],
        // The daemon stops while a client is asked and another call has not begun.
        vec![Attach, Prompt, Expanded, TurnQueuesCall, Planned, Drain],
        // A message arrives while the conversation is summarised.
        vec![
            Prompt,
            Expanded,
            TurnSpeaks,
            TurnEnds,
            HooksAgree,
            Prompt,
            Expanded,
            TurnEnds,
            HooksAgree,
            SlashCompact,
            Steer,
            SteeringExpanded,
        ],
        // A turn that changed a file is over and can be undone.
        vec![Prompt, Expanded, TurnCalls, PlannedFree, CallEnds, TurnEnds, HooksAgree],
        // Files are put back.
        vec![Prompt, Expanded, TurnCalls, PlannedFree, CallEnds, TurnEnds, HooksAgree, CtlUndo],
    ])
}

fn any_move() -> impl Strategy<Value = Move> {
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
        SlashHelp,
        SlashCommandEnds,
        Cancel,
        WithdrawLast,
        Deny,
        AnswerCancelled,
        Attach,
        BridgeReturns,
        LatePrompt,
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
        TurnCallsTwice,
        TurnQueuesCall,
        TurnCallsNext,
        TurnDies,
        StaleTurnEnds,
        CallDies,
        StaleCallReports,
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
    let busy = prop_oneof![Just(BusyPolicy::Refuse), Just(BusyPolicy::Queue), Just(BusyPolicy::Steer)];
    let unattended = prop_oneof![
        Just(UnattendedPolicy::Wait),
        Just(UnattendedPolicy::Wait),
        Just(UnattendedPolicy::Deny),
        Just(UnattendedPolicy::DenyAfter(Duration::from_secs(1)))
    ];
    (busy, unattended).prop_map(|(when_busy, unattended)| SessionPolicy {
        agents: AgentLimits::default(),
        spending: crate::budget::SpendingLimits::default(),
        when_busy,
        unattended,
        idle_after: Duration::from_secs(600),
    })
}
