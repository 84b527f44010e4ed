//! Commands that continue after their call, and what ends them.

use domain::TurnId;
use domain::tool::Toolbox;

use super::*;

const SLEEPER: &str = "echo $$ >> pids; setsid sh -c 'echo $$ >> pids; sleep 600; true' & sleep 600; true";

impl Bench {
    async fn leave(&self, command: &str) -> String {
        let outcome = call(&self.registry, &self.site, "bash", json!({"command": command, "background": true})).await;
        assert_eq!(outcome.verdict, OutcomeKind::Completed, "{}", outcome.text);
        outcome.raw["handle"].as_str().unwrap().to_owned()
    }

    async fn output(&self, handle: &str, wait: u64) -> Outcome {
        call(&self.registry, &self.site, "bash_output", json!({"handle": handle, "wait_ms": wait})).await
    }

    async fn missing(&self, handle: &str) -> String {
        plan(&self.registry, &self.site, "bash_output", json!({"handle": handle})).await.err().unwrap().reason
    }
}

async fn all_end(pids: &[u32]) {
    until(|| pids.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
}

pub(super) async fn a_background_command_is_read_as_it_goes() {
    let bench = Bench::new();
    let command = "echo first; until [ -e go ]; do sleep 0.01; done; echo second; exit 3";
    let outcome = call(&bench.registry, &bench.site, "bash", json!({"command": command, "background": true})).await;
    let text = "Started in the background as `bg1`. Read its output with bash_output and end it with bash_stop.";
    assert_eq!((outcome.text.as_str(), &outcome.raw), (text, &json!({"handle": "bg1"})));

    let mut first = String::new();
    while !first.contains("first") {
        first = bench.output("bg1", 10).await.text;
    }
    assert_eq!(first, "first\n[bg1 is still running]");
    assert_eq!(bench.output("bg1", 0).await.text, "(no new output)\n[bg1 is still running]");
    fs::write(bench.folder.path().join("go"), "").unwrap();
    let last = bench.output("bg1", 10_000).await;
    assert_eq!(last.text, "second\n[bg1 has ended: exit status 3]");
    let raw = json!({"handle": "bg1", "running": false, "exitCode": 3, "signal": null, "truncated": false});
    assert_eq!(last.raw, raw);
    assert_eq!(bench.output("bg1", 0).await.text, "(no new output)\n[bg1 has ended: exit status 3]");
}

pub(super) async fn stopping_ends_everything_and_gives_the_rest() {
    let bench = Bench::new();
    let handle = bench.leave(&format!("echo so far; {SLEEPER}")).await;
    let pids = wait_for_pids(bench.folder.path(), 2).await;
    let outcome = call(&bench.registry, &bench.site, "bash_stop", json!({"handle": handle})).await;
    assert_eq!(outcome.text, "so far\n[bg1 has ended: stopped, with everything it started]");
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

pub(super) async fn cancelling_a_turn_ends_what_it_started_and_nothing_else() {
    let mut bench = Bench::new();
    bench.leave("echo $$ >> other; sleep 600; true").await;
    let earlier = Arc::clone(&bench.site);
    bench.site = Arc::new(CallSite { turn: TurnId::new(), ..(*bench.site).clone() });
    let handle = bench.leave(SLEEPER).await;
    let pids = wait_for_pids(bench.folder.path(), 2).await;
    bench.registry.cancel_turn(&bench.site.session, &bench.site.turn);
    all_end(&pids).await;
    assert_eq!(bench.output(&handle, 1000).await.raw["running"], false);
    assert_eq!(bench.output("bg1", 0).await.raw["running"], true);

    // A call that was about to start something when its turn was cancelled.
    let late = call(&bench.registry, &bench.site, "bash", json!({"command": "sleep 600", "background": true})).await;
    assert_eq!(late.text, "the turn was cancelled; the command was stopped");
    bench.registry.close(&earlier.session);
}

pub(super) async fn closing_a_session_ends_all_of_its_commands_and_no_others() {
    let (bench, other) = (Bench::new(), Bench::new());
    let other = Bench { registry: Arc::clone(&bench.registry), ..other };
    bench.leave(SLEEPER).await;
    other.leave(SLEEPER).await;
    let pids = wait_for_pids(bench.folder.path(), 2).await;
    let others = wait_for_pids(other.folder.path(), 2).await;
    bench.registry.close(&bench.site.session);
    all_end(&pids).await;
    assert!(others.iter().all(|pid| is_alive(*pid)));
    assert_eq!(bench.missing("bg1").await, "there is no background command `bg1` in this session; there are none");
    let reason = other.missing("bg7").await;
    assert!(reason.starts_with("there is no background command `bg7` in this session; there are `bg1` (echo $$ >> "));
    other.registry.close(&other.site.session);
    all_end(&others).await;
}

pub(super) async fn background_commands_are_limited_in_number_output_and_time() {
    let bench = Bench::new();
    for _ in 0..8 {
        bench.leave("sleep 600").await;
    }
    let input = json!({"command": "sleep 600", "background": true});
    let outcome = call(&bench.registry, &bench.site, "bash", input).await;
    let text = "8 background commands are running already; end one with bash_stop: `bg1` (sleep 600), `bg2`";
    assert!(outcome.verdict == OutcomeKind::Failed && outcome.text.starts_with(text), "{}", outcome.text);
    call(&bench.registry, &bench.site, "bash_stop", json!({"handle": "bg1"})).await;
    let handle = bench.leave("echo start; yes | head -c 5000000; echo end").await;
    let outcome = bench.output(&handle, 10_000).await;
    assert!(outcome.text.len() < 50 * 1024 && outcome.raw["truncated"] == json!(true));
    assert!(outcome.text.ends_with("y\nend\n[bg9 has ended: exit status 0]"));

    let input = json!({"command": "sleep 600", "background": true, "timeout_ms": 100});
    call(&bench.registry, &bench.site, "bash", input).await;
    let text = bench.output("bg10", 10_000).await.text;
    assert!(text.contains("[bg10 has ended: timed out after 100 ms; "), "{text}");
    bench.registry.close(&bench.site.session);
}

pub(super) async fn the_question_says_that_it_goes_on_in_the_background() {
    let bench = Bench::new();
    let input = json!({"command": "npm run dev", "run_in_background": true});
    let job = plan(&bench.registry, &bench.site, "bash", input).await;
    let card = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().clone();
    assert_eq!(card.title, "npm run dev (in the background)");
    assert_eq!(card.preview.len(), 2);
}
