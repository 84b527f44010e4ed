//! `acpd install` and `uninstall` in a temporary home. A script stands in for the service manager,
//! and the tests check the arguments that it gets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use expect_test::expect;
use serde_json::json;

use crate::activation::is_installed;
use crate::harness::{Home, finish, script};

const LINGERS: &str = "The daemon keeps running after you log out, because lingering is enabled for you.\n";

/// The units' folder.
fn units(home: &Home) -> PathBuf {
    home.path().join("home/.config/systemd/user")
}

/// A `systemctl` that records its arguments and always succeeds.
fn with_manager(home: &Home) {
    fs::create_dir_all(home.path().join("bin")).unwrap();
    let note = home.path().join("systemctl-calls").display().to_string();
    let answer = format!("case \"$2\" in show) ;; *) echo \"$*\" >> {note} ;; esac");
    script(&home.path().join("bin/systemctl"), &answer).unwrap();
}

fn systemctl_calls(home: &Home) -> String {
    fs::read_to_string(home.path().join("systemctl-calls")).unwrap_or_default()
}

fn acpd(home: &Home, args: &[&str]) -> Command {
    let mut command = home.acpd(args);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", home.path().join("bin").display()));
    command
}

/// Returns the output with the paths of the home and the program replaced.
fn said(home: &Home, args: &[&str]) -> String {
    let output = finish(acpd(home, args));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.replace(&home.path().display().to_string(), "DIR").replace(env!("CARGO_BIN_EXE_acpd"), "ACPD")
}

#[test]
fn an_installation_writes_the_units_once_and_can_be_undone() {
    let home = Home::new();
    with_manager(&home);
    let linger = "The daemon stops when you log out, and running turns end. To keep it running, run:\n  loginctl enable-linger\n";
    let first = said(&home, &["install"]);
    assert!(first.ends_with(linger) || first.ends_with(LINGERS), "{first}");
    let first = first.replace(linger, "LINGER\n").replace(LINGERS, "LINGER\n");
    expect![[r#"
          write    ~/.config/systemd/user/acpd.socket
          write    ~/.config/systemd/user/acpd.service
          run      systemctl --user daemon-reload
          run      systemctl --user enable --now acpd.socket

        systemd starts the daemon when the first editor connects.
        LINGER
    "#]]
    .assert_eq(&first);
    let service = fs::read_to_string(units(&home).join("acpd.service")).unwrap();
    let start = format!("ExecStart={} --socket {} serve\n", env!("CARGO_BIN_EXE_acpd"), home.socket().display());
    assert!(service.contains(&start), "{service}");
    expect![[r#"
        --user daemon-reload
        --user enable --now acpd.socket
    "#]]
    .assert_eq(&systemctl_calls(&home));

    let again = said(&home, &["install"]);
    assert!(again.contains("leave    ~/.config/systemd/user/acpd.socket, which is up to date"), "{again}");

    expect![[r#"
          run      systemctl --user disable --now acpd.socket
          run      systemctl --user disable --now acpd.service
          remove   ~/.config/systemd/user/acpd.socket
          remove   ~/.config/systemd/user/acpd.service
          run      systemctl --user daemon-reload

        Your history and keys stay in DIR/home/.local/state/acpd,
        and your configuration in DIR/home/.config/acpd/.
        Editors start the daemon themselves from now on.
    "#]]
    .assert_eq(&said(&home, &["uninstall"]));
    assert_eq!(fs::read_dir(units(&home)).unwrap().count(), 0);
    expect![[r#"
        No units of acpd are installed in DIR/home/.config/systemd/user.
    "#]]
    .assert_eq(&said(&home, &["uninstall"]));
}

#[test]
fn modified_units_and_drop_ins_are_left_alone() {
    let home = Home::new();
    with_manager(&home);
    said(&home, &["install", "--hardened"]);
    let service = units(&home).join("acpd.service");
    let changed = fs::read_to_string(&service).unwrap().replace("WatchdogSec=30", "WatchdogSec=90");
    fs::write(&service, &changed).unwrap();
    let drop_in = units(&home).join("acpd.service.d/mine.conf");
    fs::write(&drop_in, "[Service]\nNice=5\n").unwrap();

    let left = said(&home, &["install"]);
    assert!(left.contains("acpd.service, which was edited"), "{left}");
    assert_eq!(fs::read_to_string(&service).unwrap(), changed);

    let forced = said(&home, &["install", "--force"]);
    assert!(forced.contains("copy     ~/.config/systemd/user/acpd.service to"), "{forced}");
    assert!(fs::read_to_string(&service).unwrap().contains("WatchdogSec=30"));
    assert_eq!(fs::read_to_string(units(&home).join("acpd.service.before-acpd")).unwrap(), changed);

    // An earlier copy stays unchanged.
    fs::write(&service, "[Service]\n").unwrap();
    said(&home, &["install", "--force"]);
    assert_eq!(fs::read_to_string(units(&home).join("acpd.service.before-acpd")).unwrap(), changed);
    assert_eq!(fs::read_to_string(units(&home).join("acpd.service.before-acpd-2")).unwrap(), "[Service]\n");

    said(&home, &["uninstall"]);
    assert!(!service.exists() && drop_in.exists());
}

#[test]
fn a_partial_installation_is_removed_even_if_the_manager_fails() {
    let home = Home::new();
    with_manager(&home);
    said(&home, &["install"]);
    fs::remove_file(units(&home).join("acpd.socket")).unwrap();
    fs::remove_file(home.path().join("systemctl-calls")).unwrap();
    let note = home.path().join("systemctl-calls").display().to_string();
    let answer = format!("case \"$2\" in show) ;; *) echo \"$*\" >> {note}; echo no such unit >&2; exit 1 ;; esac");
    script(&home.path().join("bin/systemctl"), &answer).unwrap();
    let output = finish(acpd(&home, &["uninstall"]));
    assert!(!output.status.success());
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("  failed   systemctl --user disable --now acpd.service failed: no such unit\n"), "{said}");
    assert!(said.ends_with("acpd: 2 steps failed; the others succeeded\n"), "{said}");
    assert_eq!(systemctl_calls(&home), "--user disable --now acpd.service\n--user daemon-reload\n");
    assert_eq!(fs::read_dir(units(&home)).unwrap().count(), 0);
}

#[test]
fn installing_with_http_also_enables_the_service() {
    let home = Home::new();
    with_manager(&home);
    let file = home.path().join("home/.config/acpd/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "[http]\nlisten = \"127.0.0.1:7341\"\n").unwrap();
    let said = said(&home, &["install"]);
    assert!(said.contains("starts the daemon when you log in, because it listens for HTTP"), "{said}");
    assert!(
        systemctl_calls(&home).ends_with("--user enable --now acpd.socket\n--user enable --now acpd.service\n"),
        "{}",
        systemctl_calls(&home)
    );
    let service = fs::read_to_string(units(&home).join("acpd.service")).unwrap();
    assert!(service.contains("\nWantedBy=default.target\n"), "{service}");
}

#[test]
fn a_dry_run_prints_the_same_steps_and_changes_nothing() {
    let home = Home::new();
    with_manager(&home);
    let said = said(&home, &["install", "--dry-run"]);
    assert!(said.contains("write    ~/.config/systemd/user/acpd.service"), "{said}");
    assert_eq!((units(&home).exists(), systemctl_calls(&home).as_str()), (false, ""));
}

#[test]
fn install_replaces_an_idle_daemon_but_not_a_busy_one() {
    let home = Home::new();
    with_manager(&home);
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let busy = bridge.start_prompt(&session, "run the command: sleep 60");
    bridge.question();
    let pid = home.daemon().unwrap();
    let left = said(&home, &["install"]);
    assert!(left.contains(&format!("(process {pid}) is busy; sessions at work: 1")), "{left}");
    assert!(systemctl_calls(&home).ends_with("--user enable acpd.socket\n"), "{}", systemctl_calls(&home));

    bridge.notify("session/cancel", json!({ "sessionId": session }));
    bridge.answer(busy);
    let made_way = said(&home, &["install"]);
    assert!(
        made_way.contains(&format!("stop     the idle daemon that an editor started (process {pid})")),
        "{made_way}"
    );
    assert!(systemctl_calls(&home).ends_with("--user enable --now acpd.socket\n"), "{}", systemctl_calls(&home));
    assert_eq!(home.daemon(), None);
}

#[test]
fn without_systemd_nothing_is_installed_and_nothing_is_missing() {
    let home = Home::new();
    let mut command = home.acpd(&["install"]);
    command.env("PATH", "/nowhere");
    let output = finish(command);
    assert!(output.status.success(), "{output:?}");
    expect![[r#"
        There is no systemd for users here (there is no systemctl).
        Nothing needs to be installed: `acpd acp` and `acpd ask` start the daemon themselves.
    "#]]
    .assert_eq(&String::from_utf8(output.stdout).unwrap());
    assert!(!units(&home).exists());
}

#[test]
fn the_installed_units_satisfy_systemd() {
    if !is_installed("systemd-analyze") {
        return;
    }
    let home = Home::new();
    with_manager(&home);
    said(&home, &["install", "--hardened"]);
    let units = units(&home);
    let mut verify = home.bare("systemd-analyze");
    verify.args(["verify", "--user"]).args([units.join("acpd.service"), units.join("acpd.socket")]);
    let output = finish(verify);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("acpd."), "{said}");

    let mut security = home.bare("systemd-analyze");
    security
        .args(["security", "--user", "--offline=true", "--threshold=80", "--no-pager"])
        .arg(units.join("acpd.service"));
    let output = finish(security);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
