//! Commands in the sandbox: tables of attempts to escape, and ordinary work that still succeeds.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixListener};

use domain::Mode;
use domain::tool::Toolbox;

use super::*;

/// A command that cannot work here for another reason would prove nothing, so each is tried without
/// the sandbox first.
const CONTROL: Mode = Mode::Full;

fn bench_in(mode: Mode) -> Bench {
    let mut bench = Bench::new();
    bench.site = Arc::new(CallSite { mode, ..(*bench.site).clone() });
    bench
}

/// A folder beside the session's, with a file in it, in the command's words: `$OUT`, `$OUT/file`.
struct Outside(TempDir);

impl Outside {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("file"), "untouched").unwrap();
        Self(folder)
    }

    fn fill(&self, command: &str) -> String {
        command.replace("$OUT", self.0.path().to_str().unwrap())
    }

    fn is_untouched(&self) -> bool {
        let names: Vec<_> = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names == ["file"] && fs::read_to_string(self.0.path().join("file")).unwrap() == "untouched"
    }
}

pub(super) async fn nothing_is_written_outside() {
    let attempts = [
        "echo x > $OUT/new",
        "echo x >> $OUT/file",
        "truncate -s 0 $OUT/file",
        "rm $OUT/file",
        "mkdir $OUT/folder",
        "mkfifo $OUT/pipe",
        "bash -c 'echo x > $OUT/new'",
        "setsid --wait sh -c 'echo x > $OUT/new'",
        "perl -e 'open(F, \">\", \"$OUT/new\") or exit 1'",
        "perl -e 'truncate(\"$OUT/file\", 0) or exit 1'",
        "python3 -c 'open(\"$OUT/new\", \"w\")'",
        "ln -s $OUT link && echo x > link/new",
        "ln -s $OUT/file link && echo x > link",
        "echo x > /proc/self/root$OUT/new",
        "ln $OUT/file hard && echo x >> hard",
        "mv $OUT/file stolen",
        "mv -T $OUT stolen",
        "echo x > inside && mv inside $OUT/new",
        "echo x > inside && ln inside $OUT/new",
        "perl -e 'rename(\"$OUT/file\", \"stolen\") or exit 1'",
        "perl -e 'symlink(\"x\", \"$OUT/new\") or exit 1'",
        "cd $OUT && echo x > new",
    ];
    for attempt in attempts {
        let outside = Outside::new();
        let control = bench_in(CONTROL).bash(&outside.fill(attempt)).await;
        assert_eq!(control.verdict, OutcomeKind::Completed, "control of {attempt}: {}", control.text);
        let outside = Outside::new();
        let outcome = bench_in(Mode::Sandbox).bash(&outside.fill(attempt)).await;
        assert_eq!(outcome.verdict, OutcomeKind::Failed, "{attempt}");
        assert!(outcome.text.contains("the command ran in the sandbox: it may write only inside"), "{}", outcome.text);
        assert!(outside.is_untouched(), "{attempt}");
    }
}

pub(super) async fn the_helper_the_machine_and_namespaces_give_no_way_out() {
    // Some of these need rights that the test may not have outside either.
    let attempts = [
        "kill -9 $PPID",
        "readlink /proc/$PPID/fd/0",
        "echo x > /proc/$PPID/mem",
        "echo x > /dev/shm/acpd-test",
        "mknod device b 7 0",
        "mknod device c 1 3",
        "mount --bind $OUT .",
        "unshare -Urm mount --bind $OUT .",
        "unshare -Ur sh -c 'echo x > $OUT/new'",
        "echo x > /proc/sys/kernel/hostname",
    ];
    for attempt in attempts {
        let outside = Outside::new();
        let outcome = bench_in(Mode::Sandbox).bash(&outside.fill(attempt)).await;
        assert_eq!(outcome.verdict, OutcomeKind::Failed, "{attempt}: {}", outcome.text);
        assert!(outside.is_untouched(), "{attempt}");
    }
}

pub(super) async fn a_folder_swapped_for_a_link_does_not_widen_the_next_call() {
    for inner_first in [false, true] {
        let outside = Outside::new();
        let mut bench = bench_in(Mode::Sandbox);
        let folder = bench.folder.path().canonicalize().unwrap();
        fs::create_dir(folder.join("inner")).unwrap();
        let (cwd, extra) =
            if inner_first { (folder.join("inner"), folder.clone()) } else { (folder.clone(), folder.join("inner")) };
        bench.site = Arc::new(CallSite { cwd, extra_roots: vec![extra], ..(*bench.site).clone() });
        fs::remove_dir(folder.join("inner")).unwrap();
        symlink(outside.0.path(), folder.join("inner")).unwrap();

        let command = format!("echo x > {}/inner/new", folder.display());
        assert_eq!(bench.bash(&command).await.verdict, OutcomeKind::Failed);
        let input = json!({"path": folder.join("inner/new"), "content": "x"});
        assert!(plan(&bench.registry, &bench.site, "write_file", input).await.is_err());
        assert!(outside.is_untouched());
    }
}

/// A root under two names: one by a symlink beside it. What the sandbox does to the inner one must
/// not widen the next call.
pub(super) async fn a_root_under_another_name_is_the_same_root() {
    let outside = Outside::new();
    let mut bench = bench_in(Mode::Sandbox);
    let base = bench.folder.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("wide/inner")).unwrap();
    symlink(base.join("wide"), base.join("alias")).unwrap();
    let (cwd, extra_roots) = (base.join("alias/inner"), vec![base.join("wide")]);
    bench.site = Arc::new(CallSite { cwd, extra_roots, ..(*bench.site).clone() });
    let moving = outside.fill("echo x > here && cd ../../wide && mv inner moved && ln -s $OUT inner");
    assert_eq!(bench.bash(&moving).await.verdict, OutcomeKind::Completed);

    // The same session, and a new one that never saw the folder as it was.
    let newcomer = CallSite { session: domain::SessionId::new(), ..(*bench.site).clone() };
    for site in [Arc::clone(&bench.site), Arc::new(newcomer)] {
        let outcome = call(&bench.registry, &site, "bash", json!({"command": "echo x > new"})).await;
        assert_eq!(outcome.verdict, OutcomeKind::Failed, "{}", outcome.text);
        assert!(plan(&bench.registry, &site, "write_file", json!({"path": "new", "content": "x"})).await.is_err());
    }
    assert!(outside.is_untouched());
}

pub(super) async fn a_command_of_one_session_does_not_move_the_root_of_another() {
    let outside = Outside::new();
    let bench = bench_in(Mode::Sandbox);
    let base = bench.folder.path().canonicalize().unwrap();
    fs::create_dir(base.join("inner")).unwrap();
    let other = CallSite { session: domain::SessionId::new(), cwd: base.join("inner"), ..(*bench.site).clone() };
    let other = Arc::new(other);
    let write = json!({"command": "echo x > new"});
    assert_eq!(call(&bench.registry, &other, "bash", write.clone()).await.verdict, OutcomeKind::Completed);
    let moving = outside.fill("mv inner moved && ln -s $OUT inner");
    assert_eq!(bench.bash(&moving).await.verdict, OutcomeKind::Completed);
    let outcome = call(&bench.registry, &other, "bash", write).await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    assert!(outcome.text.contains("the session must be opened again"), "{}", outcome.text);
    assert!(outside.is_untouched());
}

/// A session at a home that holds acpd's own places.
fn bench_at_home(mode: Mode) -> Bench {
    let mut bench = bench_in(mode);
    for folder in [".local/state/acpd/keys", ".config/other", "work"] {
        fs::create_dir_all(bench.folder.path().join(folder)).unwrap();
    }
    fs::write(bench.folder.path().join(".local/state/acpd/keys/one"), "sk-secret").unwrap();
    fs::write(bench.folder.path().join(".profile"), "profile").unwrap();
    let mut settings = ToolSettings::new(std::env::current_exe().unwrap());
    let places = [".local/state/acpd", ".config/acpd"];
    settings.protected_paths = places.map(|place| bench.folder.path().join(place)).to_vec();
    bench.registry = Arc::new(Registry::new(settings));
    bench
}

/// Outside the sandbox, a plain search may be allowed permanently because the kernel keeps it from
/// acpd's own files. Other commands that go through the same folder need approval every time.
pub(super) async fn a_search_in_the_home_folder_runs_without_reading_acpds_own_files() {
    let bench = bench_at_home(Mode::Full);
    fs::write(bench.folder.path().join("work/notes"), "sk-none").unwrap();
    let access = async |command: &str| {
        let job = plan(&bench.registry, &bench.site, "bash", json!({"command": command})).await;
        job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().access.clone()
    };
    for command in ["grep -rh sk- .", "find . -type f"] {
        assert!(matches!(access(command).await, Access::Ask { always: Some(Grant::Command(_)) }), "{command}");
    }
    for command in ["tar cf /tmp/x.tar .", "grep -r sk- . > out", "find . -delete", "cat .local/state/acpd/keys/one"] {
        assert_eq!(access(command).await, Access::AskEveryTime, "{command}");
    }
    let searched = bench.bash("grep -rh sk- .").await;
    assert!(searched.text.contains("sk-none") && !searched.text.contains("sk-secret"), "{}", searched.text);
    let found = bench.bash("find . -name notes").await;
    assert_eq!((found.verdict, found.text.as_str()), (OutcomeKind::Completed, "./work/notes\n"));
}

/// A command that reads its input may be a shell, so its input is treated like a command.
pub(super) async fn input_for_a_command_bypasses_neither_the_sandbox_nor_the_protection_of_acpds_files() {
    let mut bench = bench_at_home(Mode::Full);
    let start = json!({"command": "bash", "background": true, "input": true});
    call(&bench.registry, &bench.site, "bash", start.clone()).await;
    let card = async |bench: &Bench, handle: &str, text: &str| {
        let job = plan(&bench.registry, &bench.site, "bash_input", json!({"handle": handle, "text": text})).await;
        job.map(|job| job.card().clone()).map_err(|refusal| refusal.reason)
    };
    assert_eq!(card(&bench, "bg1", "ls work\n").await.unwrap().access, Access::Ask { always: None });
    for text in ["cat .local/state/acpd/keys/one\n", "cat ~/.local/sta", "acpd ctl allow x\n"] {
        assert_eq!(card(&bench, "bg1", text).await.unwrap().access, Access::AskEveryTime, "{text}");
    }
    // The user has changed the mode since then.
    bench.site = Arc::new(CallSite { mode: Mode::Sandbox, ..(*bench.site).clone() });
    let refused = card(&bench, "bg1", "touch ../outside\n").await.unwrap_err();
    assert!(refused.starts_with("`bg1` was started outside the sandbox"), "{refused}");
    call(&bench.registry, &bench.site, "bash", start).await;
    let sandboxed = card(&bench, "bg2", "cat .local/state/acpd/keys/one\n").await.unwrap();
    assert_eq!(sandboxed.access, Access::Ask { always: None }, "the kernel keeps it from them");
    bench.registry.close(&bench.site.session);
}

pub(super) async fn acpds_own_files_are_out_of_reach_in_a_session_at_home() {
    let attempts = [
        "cat .local/state/acpd/keys/one",
        "cd .local/state/acpd/keys && cat one",
        "ln -s .local/state/acpd a && cat a/keys/one",
        "cat /proc/self/cwd/.local/state/acpd/keys/one",
        "ln .local/state/acpd/keys/one work/one && cat work/one",
        "cp -r .local/state/acpd/keys work/keys",
        "mv .local/state/acpd work/acpd && cat work/acpd/keys/one",
        "mv .local work/local && cat work/local/state/acpd/keys/one",
        "echo x > .local/state/acpd/keys/two",
        "rm .local/state/acpd/keys/one",
        "mkdir .config/acpd && echo x > .config/acpd/config.toml",
        "mkdir work/acpd && mv work/acpd .config/acpd",
        "ln -s ../work .config/acpd",
        "mv .config work/config",
    ];
    for attempt in attempts {
        let control = bench_at_home(CONTROL).bash(attempt).await;
        assert_eq!(control.verdict, OutcomeKind::Completed, "control of {attempt}: {}", control.text);
        let bench = bench_at_home(Mode::Sandbox);
        let outcome = bench.bash(attempt).await;
        assert_eq!(outcome.verdict, OutcomeKind::Failed, "{attempt}");
        assert!(!outcome.text.contains("sk-secret"), "{attempt}: {}", outcome.text);
        let secret = fs::read_to_string(bench.folder.path().join(".local/state/acpd/keys/one")).unwrap();
        assert_eq!(secret, "sk-secret", "{attempt}");
        assert!(!bench.folder.path().join(".config/acpd").exists(), "{attempt}");
    }
    let bench = bench_at_home(Mode::Sandbox);
    for (command, expected) in [
        ("echo x > work/new && cat work/new && mkdir work/a && mv work/new work/a/ && rm -r work/a", "x\n"),
        ("cat .profile && echo more >> .profile && cat .profile", "profileprofilemore\n"),
        ("ls -A", ".config\n.local\n.profile\nwork\n"),
        ("echo x > .config/other/f && cat .config/other/f", "x\n"),
        (
            "cat <<< here && head -c 0 /dev/urandom && cat /proc/self/comm && echo y > $TMPDIR/f && cat $TMPDIR/f",
            "here\ncat\ny\n",
        ),
    ] {
        let outcome = bench.bash(command).await;
        assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Completed, expected), "{command}");
    }
    // Where they are outside of the session's folders, and in a session inside of them.
    let elsewhere = Bench { site: bench_in(Mode::Sandbox).site, ..bench_at_home(Mode::Sandbox) };
    let key = elsewhere.folder.path().join(".local/state/acpd/keys/one");
    let outcome = elsewhere.bash(&format!("cat {}", key.display())).await;
    assert!(outcome.verdict == OutcomeKind::Failed && !outcome.text.contains("sk-secret"), "{}", outcome.text);
    let inside = CallSite { cwd: key.parent().unwrap().to_owned(), ..(*elsewhere.site).clone() };
    let outcome = call(&elsewhere.registry, &Arc::new(inside), "bash", json!({"command": "cat one"})).await;
    assert!(outcome.verdict == OutcomeKind::Failed && !outcome.text.contains("sk-secret"), "{}", outcome.text);
}

pub(super) async fn other_processes_keep_their_limits_and_priorities() {
    // The helper is outside the sandbox and belongs to the same user.
    let attempts = [
        "prlimit --pid $PPID --core=0:0",
        "renice -n 1 -p $PPID",
        "ionice -c 2 -n 7 -p $PPID",
        "taskset -p -c 0 $PPID",
        "chrt --batch -p 0 $PPID",
        "python3 -c 'import os; os.sched_setparam(os.getppid(), os.sched_param(0))'",
    ];
    for attempt in attempts {
        let control = bench_in(CONTROL).bash(attempt).await;
        assert_eq!(control.verdict, OutcomeKind::Completed, "control of {attempt}: {}", control.text);
        let outcome = bench_in(Mode::Sandbox).bash(attempt).await;
        assert_eq!(outcome.verdict, OutcomeKind::Failed, "{attempt}: {}", outcome.text);
        assert!(outcome.text.contains("not permitted"), "{attempt}: {}", outcome.text);
    }
    for refused in ["kill -0 -1", "kill -0 $PPID", "python3 -c 'import os; os.setpriority(os.PRIO_USER, 0, 0)'"] {
        assert_eq!(bench_in(Mode::Sandbox).bash(refused).await.verdict, OutcomeKind::Failed, "{refused}");
    }
    let own = [
        "nice -n 1 true && ionice -c 3 true && taskset -c 0 true && chrt --batch 0 true && prlimit --core=0:0 true",
        "ulimit -n 64 && prlimit --pid $PPID --core > /dev/null",
        "sleep 600 & kill -STOP $! && kill -CONT $! && kill -- $! && wait $! || true",
    ];
    for command in own {
        let outcome = bench_in(Mode::Sandbox).bash(command).await;
        assert_eq!(outcome.verdict, OutcomeKind::Completed, "{command}: {}", outcome.text);
    }
}

pub(super) async fn work_inside_goes_on() {
    let bench = bench_in(Mode::Sandbox);
    let extra = TempDir::new().unwrap();
    let site = CallSite { extra_roots: vec![extra.path().to_owned()], ..(*bench.site).clone() };
    let bench = Bench { site: Arc::new(site), ..bench };
    let work = [
        "echo a > f && mv f g && ln g h && ln -s g s && mkdir -p a/b && cp h a/b/c && truncate -s 0 a/b/c && rm -r a",
        "echo x > $EXTRA/new && mv $EXTRA/new . && mv new $EXTRA/",
        "echo x > /dev/null && head -c 4 /dev/urandom > random && head -c 4 /dev/zero > zero",
        "echo shown > /dev/stderr; echo shown | tee /dev/stdout > /dev/null",
        "mkfifo pipe && (echo x > pipe &) && cat pipe",
        "file=$(mktemp) && echo x > $file && mv $file moved",
        "cat <<< here && diff <(echo a) <(echo a)",
        "git init -q . && echo x > tracked && git add tracked \
         && git -c user.name=a -c user.email=a@example.com commit -qm first && git log --oneline && git gc -q",
        "printf 'int main(){return 0;}' > m.c && gcc m.c -o m && ./m",
        "perl -e 'use Socket; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or exit 1; \
         syswrite($a, \"x\"); sysread($b, my $got, 1) == 1 or exit 1'",
        "sleep 600 & kill $!; wait $! || true",
    ];
    for command in work {
        let command = command.replace("$EXTRA", extra.path().to_str().unwrap());
        let outcome = bench.bash(&command).await;
        assert_eq!(outcome.verdict, OutcomeKind::Completed, "{command}: {}", outcome.text);
    }
}

pub(super) async fn the_temporary_folder_is_private_and_goes_with_the_command() {
    let bench = bench_in(Mode::Sandbox);
    let command = "[ $TMPDIR = $TMP ] && stat -c %a $TMPDIR && mkdir -p $TMPDIR/a && touch $TMPDIR/a/b && chmod 500 $TMPDIR/a && echo $TMPDIR";
    let first = bench.bash(command).await.text;
    let (mode, path) = first.trim().split_once('\n').unwrap();
    assert_eq!(mode, "700");
    assert!(path.starts_with("/tmp/acpd-") && !Path::new(path).exists(), "{path}");
    let outcome = bench.bash("echo $PPID > ../acpd-test-$$ || echo x > $TMPDIR/../acpd-test-$$").await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed, "what is beside it is outside");

    let usual = TempDir::new().unwrap();
    let elsewhere = Bench::with_environment(&[("TMPDIR", usual.path().to_str().unwrap())]);
    let site = CallSite { mode: Mode::Sandbox, ..(*elsewhere.site).clone() };
    let elsewhere = Bench { site: Arc::new(site), ..elsewhere };
    let started = elsewhere.start("touch $TMPDIR/x; echo $$ >> pids; sleep 600; true", 1).await;
    assert_eq!(fs::read_dir(usual.path()).unwrap().count(), 1);
    assert_eq!(started.cancel().await.verdict, OutcomeKind::Cancelled);
    assert_eq!(fs::read_dir(usual.path()).unwrap().count(), 0);
}

/// Servers of every kind, which must not receive anything.
struct Servers {
    folder: TempDir,
    tcp: TcpListener,
    udp: UdpSocket,
    stream: UnixListener,
    datagram: UnixDatagram,
}

impl Servers {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let servers = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            stream: UnixListener::bind(folder.path().join("stream")).unwrap(),
            datagram: UnixDatagram::bind(folder.path().join("datagram")).unwrap(),
            folder,
        };
        servers.tcp.set_nonblocking(true).unwrap();
        servers.udp.set_nonblocking(true).unwrap();
        servers.stream.set_nonblocking(true).unwrap();
        servers.datagram.set_nonblocking(true).unwrap();
        servers
    }

    fn fill(&self, command: &str) -> String {
        command
            .replace("$TCP", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("$UDP", &self.udp.local_addr().unwrap().port().to_string())
            .replace("$STREAM", self.folder.path().join("stream").to_str().unwrap())
            .replace("$DATAGRAM", self.folder.path().join("datagram").to_str().unwrap())
    }

    fn contacted(&self) -> bool {
        let mut buffer = [0; 8];
        self.tcp.accept().is_ok()
            || self.udp.recv(&mut buffer).is_ok()
            || self.stream.accept().is_ok()
            || self.datagram.recv(&mut buffer).is_ok()
    }
}

pub(super) async fn no_process_is_reached_by_a_socket() {
    let attempts = [
        "exec 3<>/dev/tcp/127.0.0.1/$TCP",
        "echo x > /dev/udp/127.0.0.1/$UDP",
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/$TCP'",
        "setsid --wait bash -c 'exec 3<>/dev/tcp/127.0.0.1/$TCP'",
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"127.0.0.1:$TCP\") or die $!'",
        "perl -MIO::Socket::INET -e \
         'my $s = IO::Socket::INET->new(PeerAddr => \"127.0.0.1:$UDP\", Proto => \"udp\") or die $!; $s->send(\"x\")'",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(\"$STREAM\") or die $!'",
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", $TCP))'",
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", $UDP))'",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"$STREAM\")'",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b\"x\", \"$DATAGRAM\")'",
        // A pair of datagram sockets is made without socket(2), and each of the two can be sent
        // elsewhere.
        "python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b\"x\", \"$DATAGRAM\")'",
        "python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b\"x\", \"$DATAGRAM\")'",
        "python3 -c 'import socket; a = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]; a.connect(\"$DATAGRAM\"); a.send(b\"x\")'",
    ];
    for attempt in attempts {
        let servers = Servers::new();
        let control = bench_in(CONTROL).bash(&servers.fill(attempt)).await;
        assert!(
            control.verdict == OutcomeKind::Completed && servers.contacted(),
            "control of {attempt}: {}",
            control.text
        );
        let servers = Servers::new();
        let outcome = bench_in(Mode::Sandbox).bash(&servers.fill(attempt)).await;
        assert_eq!(outcome.verdict, OutcomeKind::Failed, "{attempt}: {}", outcome.text);
        assert!(outcome.text.contains("not permitted"), "{attempt}: {}", outcome.text);
        assert!(!servers.contacted(), "{attempt}");
    }
}

pub(super) async fn raw_system_calls_make_no_socket_either() {
    // errno 1 is EPERM. The second is x32's socket, the rest are those of `io_uring`.
    let calls = if cfg!(target_arch = "x86_64") { vec![41, 0x4000_0000 + 41, 425, 426, 427] } else { vec![198, 425] };
    for call in calls {
        let command = format!("perl -e 'my $r = syscall({call}, 1, 1, 0); print \"$r \", $! + 0'");
        assert_eq!(bench_in(Mode::Sandbox).bash(&command).await.text, "-1 1", "{call}");
    }
}

pub(super) async fn cancelling_ends_everything_in_the_sandbox_too() {
    let bench = bench_in(Mode::Sandbox);
    let command =
        "echo $$ >> pids; setsid sh -c 'trap \"\" INT TERM; echo $$ >> pids; sleep 600; true' & sleep 600; true";
    assert_eq!(bench.start(command, 2).await.cancel().await.verdict, OutcomeKind::Cancelled);
}

pub(super) async fn reads_are_limited_to_the_configured_paths() {
    let outside = Outside::new();
    let mut settings = ToolSettings::new(std::env::current_exe().unwrap());
    let places = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/nonexistent"];
    settings.sandbox.reads = Some(places.map(Into::into).to_vec());
    let bench = Bench { registry: Arc::new(Registry::new(settings)), ..bench_in(Mode::Sandbox) };
    let outcome = bench.bash(&outside.fill("cat $OUT/file")).await;
    assert!(outcome.verdict == OutcomeKind::Failed && !outcome.text.contains("untouched"), "{}", outcome.text);
    assert_eq!(
        bench.bash("echo x > f && cat f && echo y > $TMPDIR/f && cat $TMPDIR/f && cat /dev/null").await.text,
        "x\ny\n"
    );
    assert_eq!(bench_in(Mode::Sandbox).bash(&outside.fill("cat $OUT/file")).await.text, "untouched");
}

pub(super) async fn a_kernel_without_landlock_runs_nothing() {
    // A runner whose kernel seems to have no Landlock.
    let folder = TempDir::new().unwrap();
    let runner = folder.path().join("runner");
    let me = std::env::current_exe().unwrap();
    fs::write(&runner, format!("#!/bin/sh\nexec {} {WITHOUT_LANDLOCK}\n", me.display())).unwrap();
    fs::set_permissions(&runner, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let bench = Bench { registry: Arc::new(Registry::new(ToolSettings::new(runner))), ..bench_in(Mode::Sandbox) };
    let outcome = bench.bash("touch ran").await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    let reason = "[commands cannot run in sandbox mode here: it needs Landlock as of Linux 6.2, which this kernel lacks \
                  or has switched off; nothing was run, and only the user can change the mode]";
    assert_eq!(outcome.text, reason);
    assert!(!bench.folder.path().join("ran").exists());
}

/// Plays the helper on such a kernel.
pub(super) fn run_without_landlock() -> ExitCode {
    use seccompiler::{SeccompAction, SeccompFilter};
    let calls = [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];
    let rules = calls.map(|call| (call, Vec::new())).into_iter().collect();
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    acpd_tools::run_helper([])
}

pub(super) async fn the_question_says_that_it_is_the_sandbox() {
    let bench = bench_in(Mode::Sandbox);
    let job = plan(&bench.registry, &bench.site, "bash", json!({"command": "git status"})).await;
    let card = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().clone();
    assert_eq!(card.title, "git status (in the sandbox)");
    let rules = "Runs in the sandbox: it may write only inside the session's folders and $TMPDIR, and has no network.";
    assert_eq!(card.preview, [ToolContent::text("git status"), ToolContent::text(rules)]);
}
