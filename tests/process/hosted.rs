//! A child agent as a process: it outlives its editor, ends with its session, and comes back after
//! a crash of the daemon or of itself.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Peer, is_alive, signal, until};

/// An agent that writes its process id and that of a detached child to `pids`, and notes how its
/// session was opened. It speaks until the file `go` exists if the prompt says `wait`, ends itself
/// if it says `die`, and writes a file through its client if it says `write`. For `escape` it tries
/// to write beside the session's folder, for `strange` it sends an update that acpd does not know,
/// for `grumble` it writes to its standard error, and for `flood` it sends text forever, whatever
/// its client sends. For `endless` it sends a message that is too long, and for `values` one with
/// too many values. With `PROTOCOL=2` it speaks version 2.
const AGENT: &str = r##"
setsid sleep 1000 &
echo "$$ $!" >> pids
state() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"c1","update":{"sessionUpdate":"state_update",%s}}}\n' "$1"; }
say() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"c1","update":{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"%s"}}}}\n' "$1"; }
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*'"protocolVersion":2'*) result='{"protocolVersion":2,"info":{"name":"shell","version":"1"},"capabilities":{"session":{}}}' ;;
    *'"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}' ;;
    *'"session/new"'*) echo new >> opened; result='{"sessionId":"c1"}' ;;
    *'"session/resume"'*) echo resumed >> opened; result='{}' ;;
    *'"session/prompt"'*)
      if [ "$PROTOCOL" = 2 ]; then
        printf '{"jsonrpc":"2.0","id":%s,"result":{"messageId":"u1"}}\n' "$id"
        state '"state":"running"'
      fi
      case "$line" in
        *wait*) for n in 1 2 3; do say "before $n;"; done; touch waits
          while [ ! -e go ]; do sleep 0.05; done
          for n in 1 2 3; do say "after $n;"; done ;;
        *die*) say "dying"; exit 3 ;;
        *strange*) printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"c1","update":{"sessionUpdate":"weather","sky":"blue"}}}\n'
          say "fine;" ;;
        *grumble*) echo "out of cheese" >&2; say "hm" ;;
        *flood*) while :; do say "and on "; done ;;
        *endless*) printf '{"jsonrpc":"2.0","method":"'; head -c 20000000 /dev/zero | tr '\0' x; printf '"}\n' ;;
        *values*) printf '{"jsonrpc":"2.0","method":"x","params":['; yes 0, | head -n 300000 | tr -d '\n'; printf '0]}\n' ;;
        *escape*) (echo x > inside) && say "inside;"; (echo x > ../outside) 2>/dev/null || say "no outside;" ;;
        *write*) printf '{"jsonrpc":"2.0","id":900,"method":"fs/write_text_file","params":{"sessionId":"c1","path":"%s/written","content":"by acpd"}}\n' "$PWD"
          read -r answer; echo "$answer" > answer
          printf '{"jsonrpc":"2.0","id":901,"method":"fs/read_text_file","params":{"sessionId":"c1","path":"/etc/hostname"}}\n'
          read -r answer; echo "$answer" > outside
          printf '{"jsonrpc":"2.0","id":902,"method":"terminal/create","params":{"sessionId":"c1","command":"echo ran > ran"}}\n'
          read -r answer
          terminal=${answer#*\"terminalId\":\"}; terminal=${terminal%%\"*}
          printf '{"jsonrpc":"2.0","id":903,"method":"terminal/wait_for_exit","params":{"sessionId":"c1","terminalId":"%s"}}\n' "$terminal"
          read -r answer; echo "$answer" > exit ;;
        *) say "hello" ;;
      esac
      if [ "$PROTOCOL" = 2 ]; then state '"state":"idle","stopReason":"end_turn"'; continue; fi
      result='{"stopReason":"end_turn"}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"##;

fn home() -> Home {
    home_with("")
}

/// A home with more configuration for the agent.
fn home_with(more: &str) -> Home {
    let home = Home::new();
    fs::write(home.work().join("agent.sh"), AGENT).unwrap();
    home.configure(&format!(
        "[agents]\ndefault = \"shell\"\n[agents.shell]\ncommand = \"sh\"\nargs = [\"agent.sh\"]\n{more}\n"
    ));
    home
}

/// The configuration of an agent that speaks version 2.
const SECOND: &str = "version = 2\nenv = { PROTOCOL = \"2\" }\n";

fn pids(home: &Home) -> Vec<u32> {
    let text = fs::read_to_string(home.work().join("pids")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[track_caller]
fn gone(pids: &[u32]) {
    until("the agent and what it started to be gone", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
}

fn opened(home: &Home) -> String {
    fs::read_to_string(home.work().join("opened")).unwrap_or_default()
}

#[test]
fn a_hosted_turn_outlives_its_editor_and_later_editors_see_every_update() {
    let home = home();
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    editor.start_prompt(&session, "wait");
    until("the agent to be in its turn", || home.work().join("waits").exists().then_some(()));
    drop(editor);
    let mut other = home.bridge();
    other.initialize();
    other.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
    fs::write(home.work().join("go"), "").unwrap();
    let last = other.wait_for(|message| message.to_string().contains("after 3;"));
    other.received.push(last);
    assert_eq!(other.agent_text(), "before 1;before 2;before 3;after 1;after 2;after 3;");
    other.ask("session/close", json!({ "sessionId": session }));
    gone(&pids(&home));
}

#[test]
fn a_killed_daemon_ends_its_agent_and_the_next_prompt_resumes_it() {
    let home = home();
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    editor.prompt(&session, "hello");
    let first = pids(&home);
    assert!(first.iter().all(|pid| is_alive(*pid)) && first.len() == 2, "{first:?}");
    home.kill_daemon();
    gone(&first);
    editor.prompt(&session, "hello");
    assert_eq!(opened(&home), "new\nresumed\n");
    home.stdout(&["ctl", "stop"]);
    gone(&pids(&home));
}

#[test]
fn an_agent_of_version_2_outlives_its_editor_and_resumes_after_kills() {
    let home = home_with(SECOND);
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    editor.start_prompt(&session, "wait");
    until("the agent to be in its turn", || home.work().join("waits").exists().then_some(()));
    drop(editor);
    let mut editor = home.bridge();
    editor.initialize();
    editor.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
    fs::write(home.work().join("go"), "").unwrap();
    let last = editor.wait_for(|message| message.to_string().contains("after 3;"));
    editor.received.push(last);
    assert_eq!(editor.agent_text(), "before 1;before 2;before 3;after 1;after 2;after 3;");

    home.kill_daemon();
    gone(&pids(&home));
    editor.prompt(&session, "hello");
    let failed = editor.ask_for_error("session/prompt", prompt(&session, "die"));
    assert!(failed["message"].as_str().unwrap().contains("exit status 3"), "{failed}");
    editor.prompt(&session, "hello");
    assert_eq!(opened(&home), "new\nresumed\nresumed\n");
    editor.ask("session/close", json!({ "sessionId": session }));
    gone(&pids(&home));
}

#[test]
fn an_agent_that_dies_fails_its_turn_and_resumes_with_the_next_prompt() {
    let home = home();
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    let failed = editor.ask_for_error("session/prompt", prompt(&session, "die"));
    assert!(failed["message"].as_str().unwrap().contains("exit status 3"), "{failed}");
    gone(&pids(&home));
    let id = editor.start_prompt(&session, "wait");
    until("the agent to be in its turn", || home.work().join("waits").exists().then_some(()));
    signal(pids(&home)[2], Signal::KILL);
    let failed = editor.wait_for(|message| message["id"] == json!(id));
    assert!(failed["error"]["message"].as_str().unwrap().contains("signal 9"), "{failed}");
    editor.prompt(&session, "hello");
    assert_eq!(opened(&home), "new\nresumed\nresumed\n");
}

#[test]
fn an_agent_whose_message_is_too_long_is_ended_with_this_reason() {
    for more in ["", "shared = true"] {
        let home = home_with(more);
        let mut editor = home.bridge();
        let session = editor.open(&home.work());
        for (text, reason) in [("endless", "longer than 16777216 bytes"), ("values", "more than 250000 values")] {
            let failed = editor.ask_for_error("session/prompt", prompt(&session, text));
            assert!(failed["message"].as_str().unwrap().contains(reason), "{more}: {failed}");
            gone(&pids(&home));
        }
        editor.prompt(&session, "hello");
        assert!(editor.agent_text().ends_with("hello"), "{}", editor.agent_text());
    }
}

#[test]
fn what_an_agent_writes_to_its_standard_error_is_in_the_log() {
    let home = home();
    let _daemon = home.serve();
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    editor.prompt(&session, "grumble");
    until("the log to have it", || home.log().contains("wrote: out of cheese").then_some(()));
    assert_eq!(editor.agent_text(), "hm");
}

#[test]
fn an_agent_that_speaks_for_ever_is_ended_after_a_cancel_and_resumes() {
    for version in ["", SECOND] {
        let home = home_with(&format!("cancel_seconds = 1\n{version}"));
        let mut editor = home.bridge();
        let session = editor.open(&home.work());
        let id = editor.start_prompt(&session, "flood");
        editor.wait_for(|message| message.to_string().contains("and on "));
        editor.notify("session/cancel", json!({ "sessionId": session }));
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
        gone(&pids(&home));
        editor.prompt(&session, "hello");
        assert_eq!(opened(&home), "new\nresumed\n");
    }
}

#[test]
fn an_update_that_acpd_does_not_know_is_kept_and_reaches_clients_of_the_agents_version() {
    for (version, number) in [("", 1), (SECOND, 2)] {
        let home = home_with(version);
        let strange = |message: &Value| message["params"]["update"]["sessionUpdate"] == "weather";
        let clients = |protocol: u64| {
            let mut editor = home.bridge().unchecked();
            editor.ask("initialize", json!({ "protocolVersion": protocol, "info": { "name": "t", "version": "1" } }));
            editor
        };
        let mut editor = clients(1);
        let session = editor.new_session(&home.work());
        editor.prompt(&session, "strange");
        assert!(editor.agent_text().contains("fine;"));
        assert_eq!(editor.received.iter().any(strange), number == 1, "{:?}", editor.received);
        let mut other = clients(number);
        let params = json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] });
        match number {
            1 => other.ask("session/load", params),
            _ => other.ask(
                "session/resume",
                json!({ "sessionId": session, "cwd": home.work(), "replayFrom": { "type": "start" } }),
            ),
        };
        let replayed =
            other.received.iter().find(|message| strange(message)).unwrap_or_else(|| panic!("{:?}", other.received));
        assert_eq!(replayed["params"]["update"]["sky"], "blue");
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

#[test]
fn files_and_terminals_of_an_agent_are_served_inside_the_sessions_folders() {
    let home = home();
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    editor.prompt(&session, "write");
    let read = |name: &str| fs::read_to_string(home.work().join(name)).unwrap();
    assert_eq!(read("written"), "by acpd", "{}", read("answer"));
    assert!(read("outside").contains("\"error\""), "{}", read("outside"));
    assert!(read("exit").contains("\"exitCode\":0"), "{}", read("exit"));
    assert_eq!(read("ran"), "ran\n");
}

#[test]
fn an_editor_chooses_its_agent_on_the_command_line_and_ctl_shows_it() {
    let home = home();
    let mut native = Peer::spawn(home.acpd(&["acp", "--agent", "native"]));
    native.open(&home.work());
    assert!(pids(&home).is_empty());
    let mut hosted = Peer::spawn(home.acpd(&["acp", "--agent", "shell"]));
    hosted.initialize();
    let opened = hosted.ask("session/new", json!({ "cwd": home.work(), "mcpServers": [] }));
    assert_eq!(opened["_meta"]["acpd"]["agent"], "shell", "{opened}");
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    hosted.prompt(&session, "hello");
    assert_eq!(hosted.agent_text(), "hello");
    let shown = home.stdout(&["ctl", "sessions"]);
    assert!(shown.contains("shell"), "{shown}");
    let shown = home.stdout(&["ctl", "session", &session]);
    assert!(shown.contains("agent") && shown.contains("shell"), "{shown}");
}

#[test]
fn a_sandboxed_agent_writes_in_the_sessions_folders_only() {
    let home = home_with("sandbox = true");
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    editor.prompt(&session, "escape");
    assert_eq!(editor.agent_text(), "inside;no outside;");
    assert!(home.work().join("inside").exists() && !home.path().join("outside").exists());
    editor.ask("session/close", json!({ "sessionId": session }));
    gone(&pids(&home));
}

/// An agent for several sessions. It notes its process id, and what happens to it.
const SHARED: &str = r##"
echo "$$" >> pids
count=0
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  session=${line#*\"sessionId\":\"}; session=${session%%\"*}
  case "$line" in
    *'"initialize"'*) echo initialized >> seen; result='{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}}' ;;
    *'"session/new"'*) count=$((count + 1)); result="{\"sessionId\":\"c$count\"}" ;;
    *'"session/close"'*) echo "closed $session" >> seen; result='{}' ;;
    *'"session/prompt"'*) printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"for %s;"}}}}\n' "$session" "$session"
      result='{"stopReason":"end_turn"}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"##;

#[test]
fn a_shared_agent_is_one_process_for_its_sessions_and_ends_with_the_last() {
    let home = Home::new();
    fs::write(home.work().join("agent.sh"), SHARED).unwrap();
    home.configure(
        "[agents]\ndefault = \"shell\"\n[agents.shell]\ncommand = \"sh\"\nargs = [\"agent.sh\"]\nshared = true\n",
    );
    let seen = || fs::read_to_string(home.work().join("seen")).unwrap_or_default();
    let (mut one, mut two) = (home.bridge(), home.bridge());
    let (first, second) = (one.open(&home.work()), two.open(&home.work()));
    one.prompt(&first, "hello");
    two.prompt(&second, "hello");
    two.prompt(&second, "hello");
    assert_eq!((one.agent_text(), two.agent_text()), ("for c1;".to_owned(), "for c2;for c2;".to_owned()));
    assert_eq!((pids(&home).len(), seen()), (1, "initialized\n".to_owned()));

    one.ask("session/close", json!({ "sessionId": first }));
    until("the agent to have closed the session", || seen().contains("closed c1").then_some(()));
    two.prompt(&second, "hello");
    assert_eq!(two.agent_text(), "for c2;for c2;for c2;");

    // The agent dies, and the session continues with another one. A prompt may still have reached
    // the dead one if acpd had not noticed its end yet, and then fails with the reason.
    signal(pids(&home)[0], Signal::KILL);
    gone(&pids(&home));
    let mut answer = two.prompt(&second, "hello");
    if answer["error"]["message"] == "the agent `shell` was killed by signal 9" {
        answer = two.prompt(&second, "hello");
    }
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(pids(&home).len(), 2);
    two.ask("session/close", json!({ "sessionId": second }));
    gone(&pids(&home));
}
