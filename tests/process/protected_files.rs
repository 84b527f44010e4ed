//! A session in the user's home does not touch acpd's own files there, in any mode.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Home, finish};

/// Returns the output of a prompt to the built-in model, in a session in the home folder.
fn ask(home: &Home, prompt: &str) -> String {
    let mut ask = home.acpd(&["ask", prompt]);
    ask.current_dir(home.path().join("home"));
    let output = finish(ask);
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_session_in_the_home_folder_cannot_reach_acpds_own_files() {
    for mode in ["full", "sandbox"] {
        let home = Home::new();
        home.configure(&format!(
            "# sk-secret\n[session]\nmode = \"{mode}\"\napproval = \"never\"\n[models.local]\nprobe = false\n"
        ));
        let keys = home.state().join("keys");
        fs::create_dir_all(&keys).unwrap();
        for folder in [&home.state(), &keys] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(keys.join("one"), "sk-secret").unwrap();
        for path in [".local/state/acpd/keys/one", ".config/acpd/config.toml"] {
            let said = ask(&home, &format!("read {path}"));
            assert!(said.contains("belongs to acpd itself") && !said.contains("sk-secret"), "{mode}: {said}");
        }
        // Also for a daemon with other folders: the default folders hold the keys of other daemons.
        home.stdout(&["ctl", "stop"]);
        let elsewhere = home.path().join("home/elsewhere");
        let mut other = home.acpd(&["ask", "read .local/state/acpd/keys/one"]);
        other.current_dir(home.path().join("home")).env("XDG_STATE_HOME", &elsewhere);
        let output = finish(other);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("belongs to acpd itself") && !said.contains("sk-secret"), "{mode}: {said}");
        let mut stop = home.acpd(&["ctl", "stop"]);
        stop.env("XDG_STATE_HOME", &elsewhere);
        assert!(finish(stop).status.success());
        if mode == "sandbox" {
            let said = ask(&home, "run `cat .local/state/acpd/keys/one .config/acpd/config.toml`");
            assert!(said.contains("denied") && !said.contains("sk-secret"), "{said}");
        }
    }
}
