//! The folder in which commands run, long output, and background commands that are written to or
//! that end unnoticed.

use domain::AgentId;
use domain::tool::{HooksRun, Toolbox};

use super::*;

async fn card(bench: &Bench, input: serde_json::Value) -> domain::ToolCard {
    let job = plan(&bench.registry, &bench.site, "bash", input).await;
    job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().clone()
}

pub(super) async fn a_command_runs_in_its_workdir_and_a_leading_cd_counts_as_one() {
    let bench = Bench::new();
    let sub = bench.folder.path().canonicalize().unwrap().join("sub");
    fs::create_dir(&sub).unwrap();
    for input in [json!({"command": "git status", "workdir": "sub"}), json!({"command": "cd sub && git status"})] {
        let card = card(&bench, input).await;
        assert_eq!(card.title, "git status (in sub)");
        let shown = ["git status".to_owned(), format!("Runs in {}.", sub.display())].map(ToolContent::text);
        assert_eq!(card.preview, shown);
        let words = vec!["git".to_owned(), "status".to_owned()];
        assert_eq!(card.access, Access::Ask { always: Some(Grant::Command(words)) });
    }
    // The same command elsewhere is another one.
    let script = card(&bench, json!({"command": "cd sub && ./build"})).await;
    assert_eq!(script.access, Access::Ask { always: Some(Grant::Exactly("./build (in sub)".to_owned())) });
    let elsewhere = card(&bench, json!({"command": "cd / && ls"})).await;
    assert_eq!((elsewhere.title.as_str(), elsewhere.access), ("cd / && ls", Access::Ask { always: None }));
    for input in [json!({"command": "pwd", "workdir": "sub"}), json!({"command": "cd ./sub/ && pwd"})] {
        let outcome = call(&bench.registry, &bench.site, "bash", input).await;
        assert_eq!(outcome.text.trim(), sub.to_str().unwrap());
    }
    let refused = plan(&bench.registry, &bench.site, "bash", json!({"command": "ls", "workdir": "/"})).await;
    assert!(refused.err().unwrap().reason.contains("is outside the session's folders"));
}

pub(super) async fn a_command_does_not_run_in_another_folder_than_the_question_showed() {
    let bench = Bench::new();
    let (root, outside) = (bench.folder.path().canonicalize().unwrap(), TempDir::new().unwrap());
    fs::create_dir(root.join("other")).unwrap();
    for target in [root.join("other"), outside.path().to_owned()] {
        fs::create_dir(root.join("sub")).unwrap();
        let input = json!({"command": "touch here", "workdir": "sub"});
        let job = plan(&bench.registry, &bench.site, "bash", input).await;
        let job = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason));
        fs::remove_dir(root.join("sub")).unwrap();
        std::os::unix::fs::symlink(&target, root.join("sub")).unwrap();
        let outcome = job.run(TestHost::new()).await;
        assert!(outcome.text.starts_with("nothing was run"), "{}", outcome.text);
        assert!(!target.join("here").exists());
        fs::remove_file(root.join("sub")).unwrap();
    }
}

pub(super) async fn long_output_is_kept_in_a_file_of_the_session() {
    let outputs = TempDir::new().unwrap();
    let mut bench = Bench::new();
    let mut settings = ToolSettings::new(std::env::current_exe().unwrap());
    settings.outputs = Some(outputs.path().to_owned());
    settings.output_limit = 2000;
    bench.registry = Arc::new(Registry::new(settings));
    let outcome = call(&bench.registry, &bench.site, "bash", json!({"command": "seq 1 5000"})).await;
    let (_, rest) = outcome.text.split_once("all of it is in ").unwrap_or_else(|| panic!("{}", outcome.text));
    let (path, _) = rest.split_once(", for read_file]").unwrap();
    let whole: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    assert_eq!(fs::read_to_string(path).unwrap(), whole);
    let folder = Path::new(path).parent().unwrap();
    let mode =
        |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777;
    assert_eq!((mode(folder), mode(Path::new(path))), (0o700, 0o600));

    let page = json!({"path": path, "offset": 2500, "limit": 2});
    let page = call(&bench.registry, &bench.site, "read_file", page).await;
    assert!(page.text.starts_with("  2500\t2500\n  2501\t2501\n"), "{}", page.text);
    // Another session cannot read it.
    let other = Arc::new(host::site(bench.folder.path(), &[]));
    let refused = plan(&bench.registry, &other, "read_file", json!({"path": path})).await;
    assert!(refused.err().unwrap().reason.contains("is outside the session's folders"));

    assert_eq!(bench.registry.sessions_with_servers().await, std::slice::from_ref(&bench.site.session));
    bench.registry.forget(&bench.site.session);
    until(|| (!folder.exists()).then_some(())).await;
}

pub(super) async fn the_end_of_a_background_command_is_announced_once() {
    let bench = Bench::new();
    let command = json!({"command": "until [ -e go ]; do sleep 0.01; done; exit 3", "background": true});
    call(&bench.registry, &bench.site, "bash", command).await;
    let outcome = Outcome::completed("Done.");
    let complete = || bench.registry.complete(&outcome, HooksRun::None, &bench.site);
    assert!(complete().is_none());
    fs::write(bench.folder.path().join("go"), "").unwrap();
    let reported = until(complete).await.await.text;
    let announced = "Done.\n[the background command `bg1` (until [ -e go ]; do sleep 0.01; done; exit 3) has ended: exit \
                     status 3; bash_output has its output]";
    assert_eq!(reported, announced);
    assert!(complete().is_none());
    // One that ends between two turns is announced with the next prompt.
    call(&bench.registry, &bench.site, "bash", json!({"command": "true", "background": true})).await;
    let prepare = || bench.registry.prepare(&bench.site.session, &bench.site.cwd, &[domain::Content::text("go on")]);
    let prepared = until(prepare).await.await;
    assert!(format!("{:?}", prepared.context).contains("`bg2` (true) has ended: exit status 0"), "{prepared:?}");
    // What the model has read needs no announcement.
    call(&bench.registry, &bench.site, "bash", json!({"command": "true", "background": true})).await;
    call(&bench.registry, &bench.site, "bash_output", json!({"handle": "bg3", "wait_ms": 10_000})).await;
    assert!(complete().is_none());
}

pub(super) async fn the_end_of_a_sub_agents_command_is_announced_to_it_or_else_to_the_main_conversation() {
    let bench = Bench::new();
    let agent = |name: &str| Arc::new(CallSite { agent: Some(AgentId::from(name)), ..(*bench.site).clone() });
    let (starter, other) = (agent("agent-1"), agent("agent-2"));
    let outcome = Outcome::completed("Done.");
    let complete = |site| bench.registry.complete(&outcome, HooksRun::None, site);
    call(&bench.registry, &starter, "bash", json!({"command": "true", "background": true})).await;
    let announced = until(|| complete(&starter)).await.await.text;
    assert!(announced.contains("`bg1` (true) has ended"), "{announced}");
    for site in [&starter, &other, &bench.site] {
        assert!(complete(site).is_none());
    }
    // A sub-agent that has ended gets no announcement.
    call(&bench.registry, &starter, "bash", json!({"command": "true", "background": true})).await;
    let announced = until(|| complete(&bench.site)).await.await.text;
    assert!(announced.contains("`bg2` (true) has ended"), "{announced}");
    assert!(complete(&other).is_none());
    // What another conversation has read of a command says nothing to the one that started it.
    call(&bench.registry, &bench.site, "bash", json!({"command": "true", "background": true})).await;
    call(&bench.registry, &other, "bash_output", json!({"handle": "bg3", "wait_ms": 10_000})).await;
    assert!(complete(&other).is_none());
    assert!(complete(&bench.site).unwrap().await.text.contains("`bg3` (true) has ended"));
}

pub(super) async fn a_background_command_reads_what_is_written_to_it() {
    let bench = Bench::new();
    let start = json!({"command": "read name; echo hello $name; cat; echo over", "background": true, "input": true});
    call(&bench.registry, &bench.site, "bash", start).await;
    let write = |text: &str, close: bool| json!({"handle": "bg1", "text": text, "close": close});
    let job = plan(&bench.registry, &bench.site, "bash_input", write("you\n", false)).await;
    let card = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().clone();
    assert_eq!((card.access, card.preview), (Access::Ask { always: None }, vec![ToolContent::text("you\n")]));
    call(&bench.registry, &bench.site, "bash_input", write("you\n", false)).await;
    call(&bench.registry, &bench.site, "bash_input", write("more\n", true)).await;
    let output = call(&bench.registry, &bench.site, "bash_output", json!({"handle": "bg1", "wait_ms": 10_000})).await;
    assert_eq!(output.text, "hello you\nmore\nover\n[bg1 has ended: exit status 0]");
    let late = call(&bench.registry, &bench.site, "bash_input", write("x", false)).await;
    assert_eq!(late.text, "`bg1` was not started with `input`, or its input is closed");
    let refused = plan(&bench.registry, &bench.site, "bash", json!({"command": "cat", "input": true})).await;
    assert!(refused.err().unwrap().reason.starts_with("`input` needs `background`"));
}
