//! `acpd setup` and `acpd config` from the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use expect_test::expect;
use serde_json::Value;

use crate::harness::{Home, finish};

const PROGRAM: &str = env!("CARGO_BIN_EXE_acpd");

#[test]
fn setup_prints_settings_on_stdout_and_instructions_on_stderr() {
    let home = Home::new();
    let output = home.run(&["setup", "zed"]);
    let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(settings["agent_servers"]["acpd"]["command"], PROGRAM);
    let said = String::from_utf8(output.stderr).unwrap();
    let said = said.replace(&home.path().display().to_string(), "DIR").replace(PROGRAM, "ACPD");
    expect![[r#"
        Zed:


        Put it into DIR/home/.config/zed/settings.json, or let
        `acpd setup zed --write` do so. In the agent panel, + and acpd start a thread.

        note: ACPD is in a build folder;
              after `cargo install --path .`, run the installed acpd's setup again
    "#]]
    .assert_eq(&said);
    for editor in ["neovim", "codecompanion", "avante", "emacs", "vscode", "jetbrains"] {
        assert!(home.stdout(&["setup", editor]).contains(&format!("\"{PROGRAM}\"")), "{editor}");
    }
}

#[test]
fn written_settings_keep_comments_and_layout_and_a_copy_is_made() {
    let home = Home::new();
    let folder = home.path().join("home/.config/zed");
    let file = folder.join("settings.json");
    fs::create_dir_all(&folder).unwrap();
    let before = "// Mine.\n{\n  \"vim_mode\": true, // always\n  \"agent_servers\": {\n    // my other agent\n    \"other\": { \"command\": \"x\" }\n  },\n}\n";
    fs::write(&file, before).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(home.run(&["setup", "zed", "--write"]).status.success());
    let after = fs::read_to_string(&file).unwrap();
    expect![[r#"
        // Mine.
        {
          "vim_mode": true, // always
          "agent_servers": {
            // my other agent
            "other": { "command": "x" },
            "acpd": {
              "type": "custom",
              "command": "ACPD",
              "args": ["acp"]
            }
          },
        }
    "#]]
    .assert_eq(&after.replace(PROGRAM, "ACPD"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_to_string(folder.join("settings.json.before-acpd")).unwrap(), before);

    let again = home.run(&["setup", "zed", "--write"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("nothing was changed"), "{again:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), after);

    // If the program has moved, only its path changes; everything that the user added stays.
    let moved = after.replace(PROGRAM, "/old/acpd").replace("\"args\"", "\"env\": { \"A\": \"b\" },\n      \"args\"");
    fs::write(&file, &moved).unwrap();
    assert!(home.run(&["setup", "zed", "--write"]).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), moved.replace("/old/acpd", PROGRAM));
}

#[test]
fn missing_editor_settings_are_created_and_unreadable_ones_left_alone() {
    let home = Home::new();
    let file = home.path().join("home/.jetbrains/acp.json");
    assert!(home.run(&["setup", "jetbrains", "--write"]).status.success());
    let made: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(made["agent_servers"]["acpd"]["args"][0], "acp");

    fs::write(&file, "{ \"agent_servers\": [ }").unwrap();
    let refused = home.run(&["setup", "jetbrains", "--write"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("was not changed"), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ \"agent_servers\": [ }");

    let lua = home.run(&["setup", "avante", "--write"]);
    assert!(!lua.status.success() && lua.stdout.is_empty(), "{lua:?}");
}

#[test]
fn config_show_names_files_values_and_errors() {
    let home = Home::new();
    let file = home.path().join("home/.config/acpd/config.toml");
    assert_eq!(home.stdout(&["config", "path"]).trim(), file.to_str().unwrap());
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(
        &file,
        "[session]\nmode = \"safe\"\n[models.providers.p]\nkind = \"openai\"\nheaders = { X = \"hush\" }\n",
    )
    .unwrap();
    let mut show = home.acpd(&["config", "show", "--changed"]);
    show.env("ACPD__LOG__FILTER", "debug");
    let shown = String::from_utf8(finish(show).stdout).unwrap();
    expect![[r#"
        log.filter = "debug"  # ACPD__LOG__FILTER
        models.providers.p.headers.X = "(hidden)"  # ~/.config/acpd/config.toml:5
        models.providers.p.kind = "openai"  # ~/.config/acpd/config.toml:4
        session.mode = "safe"  # ~/.config/acpd/config.toml:2
    "#]]
    .assert_eq(&shown);
    let all = home.json(&["config", "show", "--json"]);
    let approval = all.as_array().unwrap().iter().find(|shown| shown["key"] == "session.approval").unwrap();
    assert_eq!((&approval["value"], &approval["source"]), (&"ask".into(), &"default".into()));

    assert!(home.run(&["config", "check"]).status.success());
    fs::write(&file, "[session]\nmodes = \"safe\"\n").unwrap();
    let broken = home.run(&["config", "check"]);
    assert!(!broken.status.success());
    let said = String::from_utf8(broken.stderr).unwrap().replace(&home.path().display().to_string(), "DIR");
    expect![[r#"
        acpd: DIR/home/.config/acpd/config.toml:2: session.modes: unknown key; did you mean `mode`?
    "#]]
    .assert_eq(&said);
}

#[test]
fn the_defaults_that_are_printed_are_a_configuration() {
    let home = Home::new();
    let file = home.work().join("all.toml");
    fs::write(&file, home.stdout(&["config", "defaults"])).unwrap();
    home.stdout(&["config", "check", file.to_str().unwrap()]);
}

#[test]
fn a_projects_file_is_checked_as_one() {
    let home = Home::new();
    fs::create_dir(home.work().join(".acpd")).unwrap();
    fs::write(home.work().join(".acpd/config.toml"), "[permissions]\ndeny = [\"bash(rm)\"]\n").unwrap();
    home.stdout(&["config", "check", ".acpd/config.toml"]);
    fs::write(home.work().join(".acpd/config.toml"), "[permissions]\nallow = [\"bash\"]\n").unwrap();
    let refused = home.run(&["config", "check", ".acpd/config.toml"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`allow` is not taken from a project"), "{refused:?}");
}
