//! A folder with an MCP server in it, real tools, and an editor. The server is a short shell
//! script, so that the tests need no other program.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Editor, Scene, Step};
use tools::Registry;

/// A server that answers a client's requests line by line; `$1` selects its behaviour. It records
/// its process in `pids`.
const SERVER: &str = r##"
say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
tell() { say "{\"jsonrpc\":\"2.0\",\"method\":\"$1\",\"params\":$2}"; }
text() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
between() { value=${line#*\"$1\":}; value=${value#\"}; value=${value%%[\",\}]*}; }
echo $$ >> pids
case "$1" in
  crash) echo "no such database" >&2; exit 3 ;;
  hang) echo > started; sleep 1000 & wait ;;
  nonsense) while :; do echo "this is nothing"; done ;;
  burst) head -c 20000000 /dev/zero | tr '\0' x; exit 3 ;;
  endless) head -c 20000000 /dev/zero | tr '\0' x; sleep 1000 ;;
esac
tools='{"name":"echo","description":"Says it again","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
tools="$tools,"'{"name":"drop","title":"Drop it","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}'
for name in wait ask leave page show flood; do tools="$tools,{\"name\":\"$name\",\"inputSchema\":{}}"; done
instructions=
[ "$1" = instruct ] && instructions=',"instructions":"Speak slowly."'
[ "$1" = odd ] && tools="{\"name\":\"bad\"},$tools,7"
echo "this line is no message"
tell notifications/message '{"level":"info","data":"at your service"}'
while IFS= read -r line; do
  between id; id=$value
  case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"shell","version":"1"}'"$instructions}" ;;
    *'"tools/list"'*) answer "{\"tools\":[$tools]}" ;;
    *'"prompts/list"'*) answer '{"prompts":[{"name":"greet","description":"Greets somebody","arguments":[{"name":"who","required":true}]}]}' ;;
    *'"prompts/get"'*) between who; answer "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"Greet $value warmly.\"}}]}" ;;
    *'"resources/list"'*) answer '{"resources":[{"uri":"demo://note","name":"note"}]}' ;;
    *'"resources/templates/list"'*) answer '{"resourceTemplates":[{"uriTemplate":"demo://item/{id}","name":"item"}]}' ;;
    *'"resources/read"'*) between uri; answer "{\"contents\":[{\"uri\":\"$value\",\"text\":\"what $value says\"}]}" ;;
    *'"notifications/cancelled"'*) echo > cancelled ;;
    *'"tools/call"'*)
      call=$id; between name
      case "$value" in
        drop)
          tools="$tools,"'{"name":"later","inputSchema":{}}'
          tell notifications/tools/list_changed '{}'
          answer '{"content":[{"type":"text","text":"dropped"}],"isError":true}' ;;
        wait) between progressToken; tell notifications/progress "{\"progressToken\":$value,\"progress\":2,\"total\":5,\"message\":\"thinking\"}" ;;
        ask) say '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}' ;;
        page) say '{"jsonrpc":"2.0","id":"p","method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"https://a.example/","elicitationId":"e1"}}' ;;
        show) answer '{"content":[{"type":"text","text":"see"},{"type":"resource_link","uri":"demo://note","name":"note"},{"type":"resource","resource":{"uri":"demo://t","mimeType":"text/plain","blob":"aGVsbG8="}},{"type":"audio","data":"aGk=","mimeType":"audio/wav"}]}' ;;
        flood) n=0; while n=$((n + 1)); do say "{\"jsonrpc\":\"2.0\",\"id\":$n,\"method\":\"ping\"}"; done ;;
        leave) echo "that was all" >&2; exit 4 ;;
        *) between text; text "echo: $value in $PWD with ${SECRET-no secret} and ${OPENAI_API_KEY-no key}" ;;
      esac ;;
    *'"id":"q"'*) between action; id=$call; text "the person said $value" ;;
    *'"id":"p"'*)
      for id in e2 e1 e1 e1; do tell notifications/elicitation/complete "{\"elicitationId\":\"$id\"}"; done
      id=$call; text "it is done" ;;
  esac
done
"##;

/// How long anything may take. Generous, because tests share the machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct McpFixture {
    pub(crate) folder: TempDir,
    pub(crate) scene: Scene,
    pub(crate) zed: Editor,
}

impl McpFixture {
    pub(crate) async fn new(answers: Vec<Vec<Step>>) -> Self {
        Self::with(json!({}), answers, |_, _| {}).await
    }

    /// Creates a fixture with an editor of these capabilities and with settings that the closure
    /// makes for this folder.
    pub(crate) async fn with(
        abilities: Value,
        answers: Vec<Vec<Step>>,
        adjust: impl FnOnce(&mut tools::ToolSettings, &Path),
    ) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("server.sh"), SERVER).unwrap();
        for mark in ["started", "cancelled"] {
            rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join(mark), rustix::fs::Mode::RWXU).unwrap();
        }
        let mut settings = tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"));
        // On a busy machine even a shell is slow.
        settings.mcp.wait_seconds = TEST_TIMEOUT.as_secs();
        adjust(&mut settings, folder.path());
        let scene = Scene::equipped(answers, Arc::new(Registry::new(settings)));
        let mut zed = scene.client("zed");
        zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": abilities })).await;
        Self { folder, scene, zed }
    }

    pub(crate) fn server(&self, name: &str, how: &str) -> Value {
        json!({ "name": name, "command": "sh", "args": ["server.sh", how], "env": [{ "name": "SECRET", "value": "a secret" }] })
    }

    pub(crate) async fn open(&mut self, servers: Value) -> String {
        let opened = self.zed.call("session/new", json!({ "cwd": self.folder.path(), "mcpServers": servers })).await;
        opened["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn prompt(&mut self, session: &str, prompt: Value) -> u64 {
        self.scene.transcript.take();
        self.zed.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    /// Allows everything until a request is answered. Returns what was said and done.
    pub(crate) async fn finish(&mut self, request: u64) -> String {
        loop {
            let message = self.next().await;
            if message["method"] == "session/request_permission" {
                self.zed.choose(&message, "allow_once").await;
            } else if message["id"] == json!(request) && message.get("method").is_none() {
                return self.transcript();
            }
        }
    }

    pub(crate) async fn say(&mut self, session: &str, text: &str) -> String {
        let prompt = self.prompt(session, json!([{ "type": "text", "text": text }])).await;
        self.finish(prompt).await
    }

    pub(crate) async fn configure(&mut self, session: &str, option: &str, value: &str) {
        let params = json!({ "sessionId": session, "configId": option, "value": value });
        self.zed.call("session/set_config_option", params).await;
    }

    /// Waits until the editor has received something that contains this text.
    pub(crate) async fn wait_for(&mut self, part: &str) {
        while !self.next().await.to_string().contains(part) {}
    }

    /// The same for several texts, in any order.
    pub(crate) async fn wait_for_all(&mut self, parts: &[&str]) {
        let mut open = parts.to_vec();
        while !open.is_empty() {
            let message = self.next().await.to_string();
            open.retain(|part| !message.contains(part));
        }
    }

    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(TEST_TIMEOUT, self.zed.next()).await;
        next.unwrap_or_else(|_| panic!("nothing more comes:\n{}", self.transcript())).unwrap()
    }

    pub(crate) fn transcript(&self) -> String {
        self.scene.transcript.take().replace(&self.folder.path().display().to_string(), "DIR")
    }

    /// The processes of all servers that have been started here.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Waits until a server has left one of its marks, `started` or `cancelled`. The mark is a
    /// pipe, so that the server and the test wait for each other.
    pub(crate) async fn marked(&self, mark: &str) {
        let path = self.folder.path().join(mark);
        let read = tokio::task::spawn_blocking(move || fs::read_to_string(path));
        let waited = tokio::time::timeout(TEST_TIMEOUT, read).await;
        waited.unwrap_or_else(|_| panic!("no server has {mark}")).unwrap().unwrap();
    }
}

/// Waits until a process has ended.
pub(crate) async fn ended(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // A process that no longer exists has already ended.
    let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK) else { return };
    let wait = move || {
        let timeout = rustix::event::Timespec { tv_sec: TEST_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)).unwrap()
    };
    assert_eq!(tokio::task::spawn_blocking(wait).await.unwrap(), 1, "the process {pid:?} does not end");
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub(crate) fn calls(tools: &[(&str, Value)]) -> Vec<Vec<Step>> {
    let mut answers: Vec<Vec<Step>> =
        tools.iter().map(|(tool, input)| vec![Step::call(*tool, input.clone()), Step::end()]).collect();
    answers.push(vec![Step::text("Done."), Step::end()]);
    answers
}

#[track_caller]
pub(crate) fn has(transcript: &str, part: &str) {
    assert!(transcript.contains(part), "no `{part}` in:\n{transcript}");
}
