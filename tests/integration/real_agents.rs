//! Third-party agents answer sessions, with our own model server behind them. Their sessions
//! outlive the editor, the daemon and the agent's process, questions reach all editors, and no
//! process is left behind.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Peer, signal, until};
use crate::installed::installed;
use crate::model_server::{Format, HELLO, ModelServer, TOUCH, WAIT, WORDS};

/// An agent in its own home.
struct AgentHome {
    home: Home,
    model: ModelServer,
}

impl AgentHome {
    /// An agent that is offered this version of the protocol first.
    fn new(format: Format, version: u8) -> Self {
        let (home, model) = (Home::new(), ModelServer::start(format));
        let address = &model.server.address;
        let user = home.path().join("home");
        let file = |name: &str| installed(&format!("node_modules/{name}")).display().to_string();
        let (command, args, env) = match format {
            Format::Codex => {
                let config = format!(
                    "model = \"fake\"\nmodel_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\n\
                     base_url = \"{address}/v1\"\nwire_api = \"responses\"\nenv_key = \"FAKE_KEY\"\n"
                );
                fs::create_dir(user.join(".codex")).unwrap();
                fs::write(user.join(".codex/config.toml"), config).unwrap();
                let program = file("@zed-industries/codex-acp/bin/codex-acp.js");
                ("node".to_owned(), vec![program], vec![("FAKE_KEY", "sk-fake".to_owned())])
            }
            Format::Claude => {
                let program = file("@agentclientprotocol/claude-agent-acp/dist/index.js");
                let env = vec![
                    ("ANTHROPIC_BASE_URL", address.clone()),
                    ("ANTHROPIC_API_KEY", "sk-fake".to_owned()),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                ];
                ("node".to_owned(), vec![program], env)
            }
            Format::OpenCode => {
                let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "Fake",
                    "options": { "baseURL": format!("{address}/v1"), "apiKey": "sk-fake" },
                    "models": { "fake": { "name": "Fake", "tool_call": true } } });
                let config = json!({ "autoupdate": false, "model": "fake/fake", "small_model": "fake/fake",
                    "permission": { "bash": "ask" }, "provider": { "fake": provider } });
                fs::create_dir_all(user.join(".config/opencode")).unwrap();
                fs::write(user.join(".config/opencode/opencode.json"), config.to_string()).unwrap();
                let env = vec![("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned())];
                (file("opencode-linux-x64/bin/opencode"), vec!["acp".to_owned()], env)
            }
        };
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
        home.configure(&format!(
            "[agents]\ndefault = \"real\"\n[agents.real]\ncommand = {command:?}\nargs = {args:?}\n\
             env = {{ {} }}\nstart_seconds = 110\nversion = {version}\n",
            env.join(", ")
        ));
        Self { home, model }
    }

    fn agent_processes(&self) -> Vec<u32> {
        agent_processes(&self.home)
    }

    fn editor(&self, session: &str) -> Peer {
        attached(&self.home, session)
    }

    fn until_idle(&self) {
        until_idle(&self.home);
    }
}

/// The processes of a home's agent: those that are not acpd's own.
pub(crate) fn agent_processes(home: &Home) -> Vec<u32> {
    // The bridge is a separate program, beside acpd.
    let own = Path::new(env!("CARGO_BIN_EXE_acpd")).parent().unwrap();
    let is_acpd = |pid: &u32| {
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        program.parent() == Some(own)
    };
    home.processes().into_iter().filter(|pid| !is_acpd(pid)).collect()
}

/// An editor that has loaded a session.
pub(crate) fn attached(home: &Home, session: &str) -> Peer {
    let mut editor = home.bridge();
    editor.initialize();
    editor.ask("session/load", json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] }));
    editor
}

pub(crate) fn until_idle(home: &Home) {
    until("the turn to end", || {
        let sessions = home.json(&["ctl", "sessions", "--json"]);
        (sessions["sessions"][0]["state"] == "idle").then_some(())
    });
}

/// Kills the daemon, and waits until its agent is gone.
pub(crate) fn kill_daemon(home: &Home) {
    let before = agent_processes(home);
    assert!(!before.is_empty());
    home.kill_daemon();
    until("the agent to be gone with its daemon", || {
        let now = agent_processes(home);
        before.iter().all(|pid| !now.contains(pid)).then_some(())
    });
}

/// Waits until the agent has said this word, and keeps the message.
pub(crate) fn wait_for_word(editor: &mut Peer, word: &str) {
    let message = editor.wait_for(|message| {
        let update = &message["params"]["update"];
        update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"].as_str().unwrap().contains(word)
    });
    editor.received.push(message);
}

/// The turn continues without its editor, and another editor gets every update once and in order.
fn outlives_its_editor(home: &AgentHome) -> (Peer, String) {
    let mut first = home.home.bridge();
    let session = first.open(&home.home.work());
    first.start_prompt(&session, WAIT);
    wait_for_word(&mut first, "three");
    drop(first);
    let mut other = home.editor(&session);
    home.model.open(true);
    wait_for_word(&mut other, "six.");
    let said = other.agent_text();
    assert_eq!(said.matches(&WORDS.concat()).count(), 1, "{said}");
    for word in WORDS {
        assert_eq!(said.matches(word).count(), 1, "{said}");
    }
    home.until_idle();
    (other, session)
}

/// The bridge stays when the daemon is killed, and the next prompt resumes the agent's own session.
fn outlives_the_daemon(home: &AgentHome, editor: &mut Peer, session: &str) {
    kill_daemon(&home.home);
    prompts(home, editor, session);
}

/// A prompt is answered, and the agent remembers what was before.
fn prompts(home: &AgentHome, editor: &mut Peer, session: &str) {
    let from = editor.received.len();
    let answer = editor.prompt(session, HELLO);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = serde_json::to_string(&editor.received[from..]).unwrap();
    assert!(said.contains("Hello.") && !said.contains("goes on in a new one"), "{said}");
    let conversation = home.model.last_conversation();
    assert!(conversation.contains(WAIT) && !conversation.contains("began in another session"), "{conversation}");
}

/// An agent that is killed fails its turn, and the next prompt resumes its session.
fn outlives_itself(home: &AgentHome, editor: &mut Peer, session: &str) {
    home.model.open(false);
    let turn = editor.start_prompt(session, WAIT);
    wait_for_word(editor, "three");
    let first = home.agent_processes().into_iter().min().unwrap();
    signal(first, Signal::KILL);
    let failed = editor.answer(turn);
    assert!(failed["error"]["message"].as_str().unwrap().contains("signal 9"), "{failed}");
    prompts(home, editor, session);
}

/// Two editors get the question, and one answer counts.
fn asks_all_editors_once(home: &AgentHome, editor: &mut Peer, session: &str) {
    let mut other = home.editor(session);
    let turn = editor.start_prompt(session, TOUCH);
    let asked = |editor: &mut Peer| editor.wait_for(|message| message["method"] == "session/request_permission");
    let (here, there) = (asked(editor), asked(&mut other));
    assert_eq!(here["params"]["options"], there["params"]["options"]);
    let options = there["params"]["options"].as_array().unwrap();
    let option: &Value = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option["optionId"] } });
    other.reply(&there["id"], outcome);
    editor.wait_for(|message| message["method"] == "$/cancel_request");
    let answer = editor.answer(turn);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(home.home.work().join("asked").exists(), "the command did not run");
}

fn shows_everything(format: Format, version: u8) {
    let home = AgentHome::new(format, version);
    let (mut editor, session) = outlives_its_editor(&home);
    outlives_the_daemon(&home, &mut editor, &session);
    outlives_itself(&home, &mut editor, &session);
    asks_all_editors_once(&home, &mut editor, &session);
    editor.ask("session/close", json!({ "sessionId": session }));
    until("the agent to be gone", || home.agent_processes().is_empty().then_some(()));
    let checked = home.home.json(&["agents", "check", "real", "--json"]);
    assert_eq!((&checked["state"], &checked["protocolVersion"]), (&json!("ready"), &json!(version)), "{checked}");
    assert!(home.agent_processes().is_empty());
}

#[test]
fn codex_is_a_hosted_agent_with_everything_that_acpd_promises() {
    shows_everything(Format::Codex, 1);
}

#[test]
fn claude_is_a_hosted_agent_with_everything_that_acpd_promises() {
    shows_everything(Format::Claude, 1);
}

#[test]
fn claude_is_a_hosted_agent_with_everything_that_acpd_promises_in_version_2() {
    shows_everything(Format::Claude, 2);
}

#[test]
fn opencode_is_a_hosted_agent_with_everything_that_acpd_promises() {
    shows_everything(Format::OpenCode, 1);
}
