//! Hooks as real commands: what they get, and how they refuse.

use ::hooks::{HookOutcome, Hooks};
use domain::tool::HookPoint;
use domain::{StopReason, ToolCard, ToolKind};
use process::Launcher;
use serde_json::Value;

use super::*;

fn hooks(config: Value) -> Hooks {
    serde_json::from_value(config).unwrap()
}

async fn run(hooks: &Hooks, moment: HookPoint<'_>, site: &CallSite, launcher: &Launcher) -> HookOutcome {
    match hooks.pick(moment, site) {
        Some(round) => round.run(site, launcher).await,
        None => HookOutcome::default(),
    }
}

fn card() -> ToolCard {
    ToolCard {
        tool: "bash".to_owned(),
        title: "rm x".to_owned(),
        kind: ToolKind::Execute,
        locations: Vec::new(),
        input: json!({"command": "rm x"}),
        preview: vec![ToolContent::text("rm x")],
        access: Access::Free,
    }
}

impl Bench {
    async fn before(&self, hook: Value) -> HookOutcome {
        let launcher = Launcher::new(std::env::current_exe().unwrap());
        run(&hooks(json!({"before_tool": [hook]})), HookPoint::BeforeTool { card: &card() }, &self.site, &launcher)
            .await
    }
}

fn refused(reason: &str) -> HookOutcome {
    HookOutcome { refusal: Some(reason.to_owned()), failures: Vec::new() }
}

pub(super) async fn a_hook_gets_the_event_as_json() {
    let bench = Bench::new();
    let launcher = Launcher::new(std::env::current_exe().unwrap());
    let hook = |name: &str| json!([{"command": format!("cat > {name}")}]);
    let hooks = hooks(json!({"before_tool": hook("before"), "after_tool": hook("after"), "turn_end": hook("end")}));
    let large = Outcome::completed("x".repeat(1 << 20)).with_raw(json!({"exitCode": 0}));
    let (card, reason) = (card(), StopReason::EndTurn);
    let moments = [
        HookPoint::BeforeTool { card: &card },
        HookPoint::AfterTool { card: &card, outcome: &large },
        HookPoint::TurnEnd { reason: &reason },
    ];
    for moment in moments {
        assert_eq!(run(&hooks, moment, &bench.site, &launcher).await, HookOutcome::default());
    }
    let hook_input =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(bench.folder.path().join(name)).unwrap()).unwrap() };
    let site = &bench.site;
    let mut expected = json!({
        "event": "before_tool", "session": site.session, "turn": site.turn, "cwd": site.cwd, "mode": "full",
        "tool": "bash", "kind": "execute", "title": "rm x", "input": {"command": "rm x"}, "paths": [],
    });
    assert_eq!(hook_input("before"), expected);
    expected["event"] = json!("after_tool");
    expected["outcome"] = json!({"verdict": "completed", "text": large.text, "raw": {"exitCode": 0}});
    assert_eq!(hook_input("after"), expected);
    assert_eq!((&hook_input("end")["event"], &hook_input("end")["reason"]), (&json!("turn_end"), &json!("end_turn")));
}

pub(super) async fn a_hook_refuses_by_exit_status_or_by_a_decision() {
    let bench = Bench::new();
    let cases = [
        (json!({"command": "true"}), HookOutcome::default()),
        (json!({"command": "echo all is well"}), HookOutcome::default()),
        (json!({"command": "echo '{\"decision\": \"allow\"}'"}), HookOutcome::default()),
        (json!({"command": "echo not today >&2; exit 2"}), refused("not today")),
        (json!({"command": "exit 2"}), refused("a hook refused and gave no reason")),
        (json!({"command": "echo x; echo '{\"decision\": \"deny\", \"reason\": \"no rm\"}'"}), refused("no rm")),
        (json!({"command": "printf '{\\n\"decision\": \"deny\",\\n\"reason\": \"spread\"}'"}), refused("spread")),
        (json!({"command": "exit 2", "tool": "edit_*"}), HookOutcome::default()),
        (json!({"command": "echo no; exit 2", "tool": "ba*"}), refused("no")),
    ];
    for (hook, expected) in cases {
        assert_eq!(bench.before(hook.clone()).await, expected, "{hook}");
    }
}

pub(super) async fn a_guard_that_fails_has_not_agreed() {
    let bench = Bench::new();
    let cases = [
        (json!({"command": "echo oops; exit 1"}), "the hook `echo oops; exit 1` failed: exit status 1: oops"),
        (
            json!({"command": "sleep 600", "timeout_ms": 100}),
            "the hook `sleep 600` failed: timed out after 100 ms; the command and everything it started were stopped",
        ),
    ];
    for (hook, failure) in cases {
        let outcome = bench.before(hook).await;
        assert_eq!(outcome, HookOutcome { refusal: Some(failure.to_owned()), failures: vec![failure.to_owned()] });
    }
    // Afterwards there is nothing left to guard.
    let launcher = Launcher::new(std::env::current_exe().unwrap());
    let hooks = hooks(json!({"turn_end": [{"command": "exit 1"}, {"command": "echo tests fail; exit 2"}]}));
    let outcome = run(&hooks, HookPoint::TurnEnd { reason: &StopReason::EndTurn }, &bench.site, &launcher).await;
    let failures = vec!["the hook `exit 1` failed: exit status 1".to_owned()];
    assert_eq!(outcome, HookOutcome { refusal: Some("tests fail".to_owned()), failures });
}

pub(super) async fn a_broken_hook_configuration_is_an_error() {
    for config in [
        json!({"before": []}),
        json!({"before_tool": [{"comand": "x"}]}),
        json!({"after_tool": [{"command": "x", "tool": "["}]}),
        json!({"turn_end": [{"command": "x", "tool": "*"}]}),
    ] {
        assert!(serde_json::from_value::<Hooks>(config.clone()).is_err(), "{config}");
    }
}
