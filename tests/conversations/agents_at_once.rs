//! Sub-agents beside each other, in the background, nested, continued, and at the end of their
//! budget; and custom agents and skills. The model's answers are taken in the order of its
//! requests.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use acpd_actors::{AgentLimits, Ports};
use domain::Usage;
use domain::conversation::Message;
use domain::model::{ModelRequest, ToolUse};
use project::{Library, Notes};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Editor, ModelList, Scene, Script, Step};
use tools::Registry;

pub(crate) struct Fixture {
    _home: TempDir,
    pub(crate) project: PathBuf,
    pub(crate) scene: Scene,
    pub(crate) zed: Editor,
    pub(crate) session: String,
}

/// A trusted project with these files, in which nothing is asked about.
async fn fixture(files: &[(&str, &str)], deny: Value, limits: AgentLimits, answers: Vec<Vec<Step>>) -> Fixture {
    fixture_with(files, deny, answers, |ports| ports.settings.agents = limits).await
}

pub(crate) async fn fixture_with(
    files: &[(&str, &str)],
    deny: Value,
    answers: Vec<Vec<Step>>,
    adjust: impl FnOnce(&mut Ports),
) -> Fixture {
    let home = TempDir::new().unwrap();
    let project = home.path().join("project");
    fs::create_dir_all(&project).unwrap();
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let library = Library {
        own: Some(home.path().join("own")),
        skill_folders: Vec::new(),
        trusted: vec![home.path().join("project")],
        protected_paths: Vec::new(),
    };
    let mut settings = tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"));
    settings.library = library.clone();
    settings.permissions = serde_json::from_value(json!({ "deny": deny })).unwrap();
    let toolbox = Arc::new(Registry::new(settings));
    let notes = Notes { rules: Some(toolbox.rules()), library, ..Notes::default() };
    let scene = Scene::adjusted(|ports| {
        ports.toolbox = toolbox;
        // Reading notes takes a while, and without it a sub-agent asks before the turn that started
        // it.
        if !files.is_empty() {
            ports.instructions = Arc::new(notes);
        }
        ports.settings.approval = domain::Approval::Never;
        adjust(ports);
    });
    answers.into_iter().for_each(|answer| scene.script.push(answer));
    let mut zed = scene.editor("zed").await;
    let opened = zed.call("session/new", json!({ "cwd": project, "mcpServers": [] })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    Fixture { _home: home, project, scene, zed, session }
}

impl Fixture {
    pub(crate) async fn ask(&mut self, text: &str) -> Value {
        let prompt = self.zed.prompt(&self.session, text).await;
        self.zed.answer(prompt).await
    }

    /// The results of tools that the model got with a request.
    pub(crate) fn results(&self, request: usize) -> Vec<String> {
        results(&self.scene.script.requests()[request])
    }
}

/// The results of tools in a request that ends with an instruction.
fn results_before_instruction(request: &ModelRequest) -> Vec<String> {
    let mut request = request.clone();
    request.messages.pop();
    results(&request)
}

fn results(request: &ModelRequest) -> Vec<String> {
    let Some(Message::Results { results, .. }) = request.messages.last().map(|message| &**message) else {
        return Vec::new();
    };
    results.iter().map(|result| result.text.clone()).collect()
}

pub(crate) fn agent(input: Value) -> Step {
    Step::call("agent", input)
}

fn say(text: &str) -> Vec<Step> {
    vec![Step::text(text), Step::end()]
}

fn limits() -> AgentLimits {
    AgentLimits::default()
}

#[actix::test]
async fn two_read_only_sub_agents_work_at_the_same_time() {
    let both = vec![agent(json!({ "task": "one" })), agent(json!({ "task": "two" })), Step::end()];
    let held = |text: &str| vec![Step::Hold, Step::text(text), Step::end()];
    let answers = vec![both, held("First."), held("Second."), say("Done.")];
    let mut at = fixture(&[], json!([]), limits(), answers).await;
    let prompt = at.zed.prompt(&at.session, "find out").await;
    // Neither can continue before both have been asked.
    at.scene.script.until_held(2).await;
    at.scene.script.release();
    at.scene.script.release();
    at.zed.answer(prompt).await;
    let results = at.results(3);
    assert_eq!(results.len(), 2);
    assert!(results[0].starts_with("First.") && results[1].starts_with("Second."), "{results:?}");
}

#[actix::test]
async fn no_more_sub_agents_work_at_once_than_the_limit() {
    let task = || agent(json!({ "task": "look", "tools": "read-only" }));
    let held = || vec![Step::Hold, Step::text("Seen."), Step::end()];
    let answers = vec![vec![task(), task(), task(), Step::end()], held(), held(), held(), say("Done.")];
    let mut at = fixture(&[], json!([]), AgentLimits { at_once: 2, ..limits() }, answers).await;
    let prompt = at.zed.prompt(&at.session, "find out").await;
    at.scene.script.until_held(2).await;
    assert_eq!(at.scene.script.requests().len(), 3);
    // The third begins only when one has ended.
    at.scene.script.release();
    at.scene.script.until_held(3).await;
    at.scene.script.release();
    at.scene.script.release();
    at.zed.answer(prompt).await;
    assert_eq!(at.results(4).len(), 3);
}

#[actix::test]
async fn a_sub_agent_that_may_write_works_alone() {
    let task = |tools: &str| agent(json!({ "task": "look", "tools": tools }));
    let held = || vec![Step::Hold, Step::text("Seen."), Step::end()];
    // Which of the two begins depends on which call is planned first.
    let answers = vec![vec![task("read-only"), task("all"), Step::end()], held(), held(), say("Done.")];
    let mut at = fixture(&[], json!([]), limits(), answers).await;
    let prompt = at.zed.prompt(&at.session, "find out").await;
    at.scene.script.until_held(1).await;
    assert_eq!(at.scene.script.requests().len(), 2);
    at.scene.script.release();
    at.scene.script.until_held(2).await;
    let requests = at.scene.script.requests();
    let may_write = requests[1..3].iter().filter(|request| request.tools.iter().any(|tool| tool.name == "write_file"));
    assert_eq!(may_write.count(), 1);
    at.scene.script.release();
    at.zed.answer(prompt).await;
    assert_eq!(at.results(3).len(), 2);
}

#[actix::test]
async fn a_background_sub_agent_does_not_block_and_reports_before_the_turn_ends() {
    let start = vec![agent(json!({ "task": "look", "background": true })), Step::end()];
    let answers = vec![start, vec![Step::Hold, Step::text("Found."), Step::end()], say("Meanwhile."), say("Done.")];
    let mut at = fixture(&[], json!([]), limits(), answers).await;
    let prompt = at.zed.prompt(&at.session, "find out").await;
    at.scene.script.until_asked(3).await;
    at.scene.script.release();
    assert_eq!(at.zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let last = at.scene.script.requests().pop().unwrap();
    let Some(Message::User { content, .. }) = last.messages.last().map(|message| &**message) else { panic!() };
    let text = content[0].as_text();
    assert!(text.contains("in the background has reported:\nFound."), "{text}");
}

#[actix::test]
async fn a_background_sub_agents_report_can_be_awaited_by_its_id() {
    let start = vec![agent(json!({ "task": "look", "background": true })), Step::end()];
    let sub = vec![Step::Hold, Step::Hold, Step::text("Found."), Step::end()];
    let mut at = fixture(&[], json!([]), limits(), vec![start, sub, vec![Step::Hold, Step::end()]]).await;
    let prompt = at.zed.prompt(&at.session, "find out").await;
    at.scene.script.until_held(2).await;
    let id = at.results(2)[0].split('`').nth(1).unwrap().to_owned();
    // The model's answer is empty; when it is asked again it names the id that it has got.
    at.scene.script.push(vec![agent(json!({ "id": id })), Step::end()]);
    at.scene.script.push(say("Done."));
    at.scene.script.release();
    at.scene.script.release();
    at.zed
        .until(|message| {
            let update = &message["params"]["update"];
            update["status"] == "in_progress" && update["title"] != "Delegate: look" && update["toolCallId"].is_string()
        })
        .await;
    at.scene.script.until_held(3).await;
    at.scene.script.release();
    at.zed.answer(prompt).await;
    let last = results(&at.scene.script.requests().pop().unwrap());
    assert!(last[0].starts_with("Found."), "{last:?}");
}

#[actix::test]
async fn the_end_of_a_command_is_announced_to_the_conversation_that_started_it() {
    let serve = json!({ "command": "until [ -e go ]; do sleep 0.01; done", "background": true });
    let wait = Step::call("bash_output", json!({ "handle": "bg1", "wait_ms": 60_000 }));
    let answers = vec![
        vec![Step::call("bash", serve), Step::end()],
        vec![agent(json!({ "task": "look", "tools": "all" })), Step::end()],
        vec![Step::Hold, wait, Step::end()],
        vec![Step::call("list_files", json!({ "path": "." })), Step::end()],
        say("Seen."),
        say("Done."),
    ];
    let mut at = fixture(&[], json!([]), limits(), answers).await;
    let prompt = at.zed.prompt(&at.session, "find out").await;
    at.scene.script.until_held(1).await;
    fs::write(at.project.join("go"), "").unwrap();
    at.scene.script.release();
    at.zed.answer(prompt).await;
    assert_eq!(at.results(3), ["(no new output)\n[bg1 has ended: exit status 0]"]);
    let announced = "[the background command `bg1`";
    assert!(!at.results(4)[0].contains(announced), "{:?}", at.results(4));
    assert!(at.results(5)[0].contains(announced), "{:?}", at.results(5));
}

#[actix::test]
async fn a_sub_agent_can_recall_its_own_outcomes_that_were_cleared() {
    let used =
        |input: u64, call: Step| vec![Step::Usage(Usage { input, output: 10, ..Usage::default() }), call, Step::end()];
    let read = |path: &str| Step::call("read_file", json!({ "path": path }));
    let recall = |input: Value| vec![Step::call("recall", input), Step::end()];
    let answers = vec![
        vec![read("long.txt"), agent(json!({ "task": "look" })), Step::end()],
        used(30_000, read("other.txt")),
        used(60_000, read("third.txt")),
        used(82_000, read("last.txt")),
        recall(json!({ "query": "needle" })),
        vec![Step::Hold, Step::end()],
    ];
    let lines = format!("{}\n", "many words ".repeat(80)).repeat(50);
    let file = |first: &str| format!("{first}\n{lines}");
    let texts = [file("the needle of another"), file("the needle is here"), file("nothing"), file("the last one")];
    let names = ["project/long.txt", "project/other.txt", "project/third.txt", "project/last.txt"];
    let files: Vec<(&str, &str)> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
    let mut at = fixture_with(&files, json!([]), answers, |ports| ports.settings.compact_tokens = 80_000).await;
    let prompt = at.zed.prompt(&at.session, "find out").await;
    at.scene.script.until_held(1).await;
    let cleared = format!("{:?}", at.scene.script.requests()[4].messages);
    assert!(!cleared.contains("the needle is here") && cleared.contains("This outcome was removed"), "{cleared}");
    let found = at.results(5).remove(0);
    assert!(found.contains("the needle is here") && !found.contains("of another"), "{found}");
    let id = cleared.split("`result` = `").nth(1).unwrap().split('`').next().unwrap().to_owned();
    at.scene.script.push(recall(json!({ "result": id })));
    at.scene.script.push(say("Seen."));
    at.scene.script.push(say("Done."));
    at.scene.script.release();
    at.zed.answer(prompt).await;
    let shown = at.results(7).remove(0);
    assert!(shown.contains("the needle is here"), "{shown}");
}

#[actix::test]
async fn a_sub_agent_that_has_reported_can_be_asked_more_and_remembers_its_work() {
    let answers = vec![vec![agent(json!({ "task": "look" })), Step::end()], say("It is blue.")];
    let mut at = fixture(&[], json!([]), limits(), answers).await;
    at.scene.script.push(vec![Step::Hold, Step::end()]);
    let prompt = at.zed.prompt(&at.session, "find out").await;
    at.scene.script.until_held(1).await;
    let text = at.results(2)[0].clone();
    let id = text.split('"').nth(1).unwrap().to_owned();
    at.scene.script.push(vec![agent(json!({ "id": id, "task": "And how large?" })), Step::end()]);
    at.scene.script.push(say("Large."));
    at.scene.script.push(vec![agent(json!({ "id": "agent-77", "task": "more" })), Step::end()]);
    at.scene.script.push(say("Done."));
    at.scene.script.release();
    // An empty answer is asked for again, and that answer continues the sub-agent.
    at.zed.answer(prompt).await;
    let requests = at.scene.script.requests();
    let continued = requests.iter().find(|request| format!("{:?}", request.messages).contains("And how large?"));
    let texts = format!("{:?}", continued.unwrap().messages);
    assert!(texts.contains("It is blue."), "{texts}");
    let last = results(requests.last().unwrap());
    assert!(last[0].starts_with("There is no sub-agent `agent-77` that could be continued."), "{last:?}");
}

#[actix::test]
async fn a_sub_agent_without_tokens_left_is_asked_to_report() {
    let usage = Step::Usage(Usage { input: 900, output: 200, ..Usage::default() });
    let read = vec![usage, Step::call("list_files", json!({ "path": "." })), Step::end()];
    let answers = vec![vec![agent(json!({ "task": "look" })), Step::end()], read, say("Half of it."), say("Done.")];
    let mut at = fixture(&[], json!([]), AgentLimits { tokens: 1000, ..limits() }, answers).await;
    at.ask("find out").await;
    let requests = at.scene.script.requests();
    let last_of_sub = format!("{:?}", requests[2].messages.last());
    assert!(last_of_sub.contains("This is the last request"), "{last_of_sub}");
    assert!(results(&requests[3])[0].starts_with("Half of it."));
}

#[actix::test]
async fn sub_agents_nest_to_the_limit_with_no_more_rights_than_their_parents() {
    let deeper = |tools: &str| vec![agent(json!({ "task": "deeper", "tools": tools })), Step::end()];
    let answers = vec![deeper("read-only"), deeper("all"), deeper("all"), say("Deep."), say("Middle."), say("Done.")];
    let mut at = fixture(&[], json!([]), AgentLimits { depth: 2, ..limits() }, answers).await;
    at.ask("find out").await;
    let requests = at.scene.script.requests();
    assert_eq!(results(&requests[3]), ["a sub-agent has no sub-agents; do the work yourself"]);
    assert!(!requests[2].tools.iter().any(|tool| ["agent", "write_file"].contains(&tool.name.as_str())));
    assert!(results(&requests[4])[0].starts_with("Deep."));
    assert!(results(&requests[5])[0].starts_with("Middle."));
}

const TESTER: &str = "---\ndescription: Looks for defects\ntools: grep, read_file\nmode: read-only\n---\nBe thorough.";

#[actix::test]
async fn a_custom_agent_gets_its_instructions_and_only_its_tools() {
    let call = vec![agent(json!({ "task": "look", "agent": "tester" })), Step::end()];
    let tries = vec![Step::call("list_files", json!({ "path": "." })), Step::end()];
    let unknown = vec![agent(json!({ "task": "look", "agent": "nobody" })), Step::end()];
    let answers = vec![call, tries, say("Nothing."), unknown, say("Done.")];
    let mut at = fixture(&[("project/.acpd/agents/tester.md", TESTER)], json!([]), limits(), answers).await;
    at.ask("find out").await;
    let requests = at.scene.script.requests();
    assert!(requests[0].system.contains("- tester: Looks for defects"), "{}", requests[0].system);
    assert!(requests[1].system.contains("<agent>\nBe thorough.\n</agent>"), "{}", requests[1].system);
    let offered: Vec<&str> = requests[1].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["read_file", "grep"]);
    assert_eq!(results(&requests[2]), ["this agent may not use `list_files`; it has grep, read_file"]);
    assert_eq!(results(&requests[4]), ["there is no agent `nobody`; the agents are: tester"]);
}

#[actix::test]
async fn a_custom_agent_works_with_its_own_model_or_inherits_the_sessions() {
    for (model, to_other) in [("other", 1), ("inherit", 0)] {
        let text = format!("---\ndescription: Looks\nmodel: {model}\n---\nBe thorough.");
        let call = vec![agent(json!({ "task": "look", "agent": "tester" })), Step::end()];
        let own = Script::new("own", vec![call]);
        let other = Script::new("other", vec![say("Other.")]);
        if to_other == 0 {
            own.push(say("Own."));
        }
        own.push(say("Done."));
        let shelf = ModelList::new(vec![Arc::new(own.clone()), Arc::new(other.clone())], "own");
        let files = [("project/.acpd/agents/tester.md", text.as_str())];
        let mut at = fixture_with(&files, json!([]), Vec::new(), |ports| ports.models = Arc::new(shelf)).await;
        at.ask("find out").await;
        assert_eq!((own.requests().len(), other.requests().len()), (3 - to_other, to_other), "{model}");
        let asked = if to_other == 1 { other.requests()[0].clone() } else { own.requests()[1].clone() };
        assert!(asked.system.contains("<agent>\nBe thorough.\n</agent>"), "{}", asked.system);
        assert!(results(own.requests().last().unwrap())[0].starts_with(if to_other == 1 { "Other." } else { "Own." }));
    }
}

#[actix::test]
async fn the_last_request_of_a_sub_agent_is_its_report_even_if_it_calls_tools_instead() {
    let list = || vec![Step::call("list_files", json!({ "path": "." })), Step::end()];
    let start = vec![agent(json!({ "task": "look" })), Step::end()];
    let answers = vec![start, list(), list(), list(), say("Half of it."), say("Done.")];
    let mut at = fixture(&[], json!([]), AgentLimits { requests: 3, ..limits() }, answers).await;
    at.ask("find out").await;
    let requests = at.scene.script.requests();
    let uses: Vec<ToolUse> = requests.iter().map(|request| request.tool_use).collect();
    let (may, must_not) = (ToolUse::Allowed, ToolUse::Forbidden);
    assert_eq!(uses, [may, may, may, must_not, must_not, may]);
    // The tools stay, because providers cache them.
    assert_eq!(requests[3].tools.len(), requests[2].tools.len());
    assert!(format!("{:?}", requests[3].messages.last()).contains("This is the last request"));
    let refused = results_before_instruction(&requests[4]);
    assert!(refused[0].starts_with("This call was not run: the budget is used up."), "{refused:?}");
    let report = at.results(5).remove(0);
    assert!(report.starts_with("Half of it.") && report.contains("To ask this sub-agent more"), "{report}");
}

#[actix::test]
async fn a_sub_agent_that_never_reports_fails_after_one_more_request() {
    let list = || vec![Step::call("list_files", json!({ "path": "." })), Step::end()];
    let start = vec![agent(json!({ "task": "look" })), Step::end()];
    let answers = vec![start, list(), list(), list(), say("Done.")];
    let mut at = fixture(&[], json!([]), AgentLimits { requests: 2, ..limits() }, answers).await;
    at.ask("find out").await;
    assert_eq!(at.results(4), ["The sub-agent did not finish: its budget is used up."]);
}

#[actix::test]
async fn a_sub_agent_from_before_a_restart_is_not_continued_and_the_model_is_informed() {
    let answers = vec![vec![agent(json!({ "task": "look" })), Step::end()], say("It is blue."), say("Done.")];
    let mut at = fixture(&[], json!([]), limits(), answers).await;
    at.ask("find out").await;
    let id = at.results(2)[0].split('"').nth(1).unwrap().to_owned();
    at.scene.crash().await;
    at.scene = at.scene.restarted();
    at.zed = at.scene.editor("zed").await;
    let load = json!({ "sessionId": at.session, "cwd": at.project, "mcpServers": [] });
    at.zed.call("session/load", load).await;
    at.scene.script.push(vec![agent(json!({ "id": id, "task": "And how large?" })), Step::end()]);
    at.scene.script.push(say("Done."));
    at.ask("and now").await;
    let refusal = format!(
        "There is no sub-agent `{id}` that could be continued. The last 8 can, until the session leaves memory or the \
         daemon restarts. Start a new one without `id`, and give it all that it has to know in its `task`."
    );
    assert_eq!(at.results(4), [refusal]);
}

#[actix::test]
async fn a_skill_is_listed_loaded_on_demand_and_withheld_by_a_rule() {
    let files = [
        ("project/.acpd/skills/pdf/SKILL.md", "---\ndescription: Fills forms\n---\nRun fill.py."),
        ("project/.acpd/skills/pdf/fill.py", "print(1)"),
        ("own/skills/mine/SKILL.md", "---\ndescription: My own\n---\nMine."),
    ];
    let load = |input: Value| vec![Step::call("skill", input), Step::end()];
    let answers = vec![
        load(json!({ "name": "pdf" })),
        load(json!({ "name": "pdf", "file": "fill.py" })),
        load(json!({ "name": "pdf", "file": "../../config.toml" })),
        load(json!({ "name": "mine" })),
        say("Done."),
    ];
    let mut at = fixture(&files, json!([]), limits(), answers.clone()).await;
    at.ask("fill the form").await;
    let requests = at.scene.script.requests();
    assert!(requests[0].system.contains("- mine: My own\n- pdf: Fills forms\n"), "{}", requests[0].system);
    assert!(!requests[0].system.contains("fill.py"));
    let folder = at.project.join(".acpd/skills/pdf");
    let text = format!(
        "<skill name=\"pdf\">\nRun fill.py.\n</skill>\nThe skill's folder is {}. Its files, which this tool reads: fill.py.",
        folder.display()
    );
    assert_eq!(results(&requests[1]), [text]);
    assert_eq!(results(&requests[2]), ["print(1)"]);
    assert!(results(&requests[3])[0].contains("lies outside the skill's folder"));
    assert!(results(&requests[4])[0].starts_with("<skill name=\"mine\">\nMine."));
    let prompt = at.zed.prompt(&at.session, "/skills").await;
    let said = at.zed.update("agent_message_chunk").await["params"]["update"]["content"]["text"].clone();
    at.zed.answer(prompt).await;
    assert!(said.as_str().unwrap().starts_with("Skills:\n- `mine`: My own (`"), "{said}");

    let answers = vec![load(json!({ "name": "pdf" })), load(json!({ "name": "mine" })), say("Done.")];
    let mut at = fixture(&files, json!(["read(.acpd/**)", "skill(**/mine/**)"]), limits(), answers).await;
    at.ask("fill the form").await;
    let requests = at.scene.script.requests();
    assert!(!requests[0].system.contains("- pdf"), "{}", requests[0].system);
    assert_eq!(results(&requests[1]), ["there is no skill `pdf`; the skills are: mine"]);
    assert!(results(&requests[2])[0].contains("a rule of the configuration forbids it"), "{:?}", results(&requests[2]));
}
