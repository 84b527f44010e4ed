//! Finds the paths of acpd: the socket, the state folder, the configuration file and the home
//! folder.
//!
//! Only this module reads HOME, the XDG variables and the password database, and every subcommand
//! uses it. Therefore an editor with only PATH in its environment and a terminal with every
//! variable find the same daemon. The module creates nothing, except in `private_folder`.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, bail, ensure};

use crate::launch;

/// The prefix of the variables that name a user's folders.
pub const XDG: &str = "XDG_";

/// The variables that choose the folders of a daemon.
pub(crate) const FOLDER_VARIABLES: [&str; 3] = ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/// The path of the socket in a runtime folder.
const SOCKET: &str = "acpd/acpd.sock";

/// The paths that acpd uses. All are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    pub socket: PathBuf,
    /// The folder with history, logs and locks.
    pub state: PathBuf,
    pub config: PathBuf,
    /// The configuration file that a flag names, if any.
    pub named_config: Option<PathBuf>,
    /// The home folder of the user.
    pub home: PathBuf,
    /// Whether the user named the socket, with `--socket` or `ACPD_SOCKET`. If so, no other socket
    /// is tried.
    pub is_named: bool,
}

impl Paths {
    /// Finds the paths for this process. `socket` is the value of `--socket`.
    pub fn find(socket: Option<&Path>) -> anyhow::Result<Self> {
        let uid = rustix::process::getuid().as_raw();
        let account = move || account_of(uid).map(|account| account.home);
        let variable = |name: &str| env::var_os(name);
        let ours = move |folder: &Path| belongs_to(folder, uid);
        Rules { variable: &variable, uid, account: &account, ours: &ours }.apply(socket)
    }

    /// The log of a daemon that a client started.
    pub fn daemon_log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// The folder of stored keys.
    pub fn keys(&self) -> PathBuf {
        self.state.join("keys")
    }

    /// The folder with the MCP servers that clients passed for their sessions, including their
    /// keys.
    pub fn kept_servers(&self) -> PathBuf {
        self.keys().join("mcp")
    }

    /// The folder with the user's logins at MCP servers.
    pub fn mcp_logins(&self) -> PathBuf {
        self.keys().join("mcp-logins")
    }

    /// The folder with long outputs of commands, in one folder per session.
    pub fn outputs(&self) -> PathBuf {
        self.state.join("outputs")
    }

    /// The file with today's spending.
    pub fn spending(&self) -> PathBuf {
        self.state.join("spending.json")
    }

    /// The file with the HTTP token, unless the configuration names another.
    pub fn http_token(&self) -> PathBuf {
        self.state.join("http.token")
    }

    /// The socket on which a daemon listens while its usual folder is gone, as the runtime folder
    /// is after logging out.
    pub fn fallback_socket(&self) -> PathBuf {
        self.state.join("acpd.sock")
    }

    /// The runtime folder that the environment names, if the socket is not in it because the folder
    /// is missing or belongs to another user.
    pub fn unused_runtime_folder(&self) -> Option<PathBuf> {
        let named = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)?;
        (!self.is_named && !self.socket.starts_with(&named)).then_some(named)
    }

    /// The lock of the daemon that uses the state folder. It contains the daemon's socket.
    pub fn daemon_lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// The lock of the program that is starting a daemon.
    pub(crate) fn start_lock(&self) -> PathBuf {
        self.state.join("start.lock")
    }

    pub fn history(&self) -> PathBuf {
        self.state.join("history")
    }

    /// The path of another program's file in the user's configuration folder.
    pub fn of_configuration(&self, name: &str) -> PathBuf {
        let folder = self.config.parent().and_then(Path::parent);
        folder.map_or_else(|| self.home.join(".config"), Path::to_owned).join(name)
    }

    /// Whether the socket is in the usual runtime folder, where systemd would put it.
    pub fn has_usual_socket(&self) -> bool {
        self.socket == usual_runtime(rustix::process::getuid().as_raw()).join(SOCKET)
    }

    /// Returns the files and folders of acpd that tools must not touch: state, configuration,
    /// socket and locks.
    ///
    /// The account's own default folders are always among them, because the variables that name
    /// other folders may be those of one editor, and the keys of all others are in the defaults. A
    /// folder that is not named `acpd` may hold files of other programs, so there only our file
    /// counts.
    pub fn own(&self) -> Vec<PathBuf> {
        self.own_with(UserAccount::own().map(|account| account.home).as_deref())
    }

    fn own_with(&self, account_home: Option<&Path>) -> Vec<PathBuf> {
        let around = |file: &Path| {
            let folder = file.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "acpd"));
            folder.unwrap_or(file).to_owned()
        };
        let mut own = vec![self.state.clone(), around(&self.config), around(&self.socket)];
        own.extend(["lock", "start"].map(|what| launch::beside(&self.socket, what)));
        own.extend(self.named_config.clone());
        for home in [Some(self.home.as_path()), account_home].into_iter().flatten() {
            own.extend([default_state(home), default_config(home)].map(|base| base.join("acpd")));
        }
        own.sort();
        own.dedup();
        own
    }

    /// The folder that holds the socket and its locks.
    pub fn socket_folder(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }
}

/// The rules for all paths. The environment is an argument, so tests can use any environment.
struct Rules<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    uid: u32,
    /// Returns the home folder in the password database.
    account: &'a dyn Fn() -> Option<PathBuf>,
    /// Whether a folder exists and belongs to this user.
    ours: &'a dyn Fn(&Path) -> bool,
}

impl Rules<'_> {
    fn apply(&self, socket: Option<&Path>) -> anyhow::Result<Paths> {
        let home = self.home()?;
        let state = self.absolute("XDG_STATE_HOME").unwrap_or_else(|| default_state(&home)).join("acpd");
        let config = self.absolute("XDG_CONFIG_HOME").unwrap_or_else(|| default_config(&home));
        let is_named = socket.is_some() || (self.variable)("ACPD_SOCKET").is_some_and(|named| !named.is_empty());
        let socket = match socket {
            Some(named) => std::path::absolute(named).context("cannot resolve the path given with --socket")?,
            None => self.socket(&home)?,
        };
        ensure!(
            socket.file_name().is_some(),
            "cannot use {} as the socket: the path has no file name",
            socket.display()
        );
        Ok(Paths { socket, state, config: config.join("acpd/config.toml"), named_config: None, home, is_named })
    }

    fn home(&self) -> anyhow::Result<PathBuf> {
        self.absolute("HOME").or_else(self.account).context(
            "cannot find the home folder: HOME is not set and the password database has no entry for this user",
        )
    }

    /// Returns the path of the socket: `ACPD_SOCKET`, or in the runtime folder of the session, in
    /// the usual runtime folder, or in the home folder. A runtime folder that is missing or belongs
    /// to another user (as after `sudo`) is skipped. Without one, each HOME has its own daemon, as
    /// it has its own history.
    fn socket(&self, home: &Path) -> anyhow::Result<PathBuf> {
        if let Some(named) = (self.variable)("ACPD_SOCKET").filter(|named| !named.is_empty()).map(PathBuf::from) {
            ensure!(named.is_absolute(), "ACPD_SOCKET must be an absolute path, not {}", named.display());
            return Ok(named);
        }
        let session = self.absolute("XDG_RUNTIME_DIR");
        let usual = usual_runtime(self.uid);
        let runtime = session.into_iter().chain([usual]).find(|folder| (self.ours)(folder));
        Ok(match runtime {
            Some(folder) => folder.join(SOCKET),
            None => home.join(".local/state/acpd/acpd.sock"),
        })
    }

    /// Returns a variable that holds an absolute path. Any other value counts as not set, as the
    /// XDG specification demands.
    fn absolute(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

fn default_state(home: &Path) -> PathBuf {
    home.join(".local/state")
}

fn default_config(home: &Path) -> PathBuf {
    home.join(".config")
}

fn usual_runtime(uid: u32) -> PathBuf {
    PathBuf::from(format!("/run/user/{uid}"))
}

/// Resolves symbolic links in the part of a path that exists.
pub(crate) fn resolve_links(path: &Path) -> PathBuf {
    let resolved = path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        Some(existing.canonicalize().ok()?.join(rest))
    });
    // Joining an empty path would add a slash at the end.
    resolved.map_or_else(|| path.to_owned(), |path| path.components().collect())
}

fn belongs_to(folder: &Path, uid: u32) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

/// The entry of a user in the password database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccount {
    pub name: OsString,
    pub home: PathBuf,
    pub shell: PathBuf,
}

impl UserAccount {
    /// Returns the account of the user who runs this process.
    pub fn own() -> Option<Self> {
        account_of(rustix::process::getuid().as_raw())
    }
}

/// Looks in `/etc/passwd` first, and then asks `getent`, which knows the other databases of the
/// system, such as LDAP.
fn account_of(uid: u32) -> Option<UserAccount> {
    let local = fs::read("/etc/passwd").unwrap_or_default();
    account_in(&local, uid).or_else(|| {
        let answer = Command::new("getent").args(["passwd", &uid.to_string()]).stdin(Stdio::null()).output().ok()?;
        account_in(&answer.stdout, uid)
    })
}

fn account_in(database: &[u8], uid: u32) -> Option<UserAccount> {
    let uid = uid.to_string();
    let text = std::ffi::OsStr::from_bytes;
    database.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let home = Path::new(text(fields.get(5)?));
        let shell = fields.get(6).filter(|shell| !shell.is_empty()).map_or("/bin/sh".as_ref(), |shell| text(shell));
        (fields[2] == uid.as_bytes() && home.is_absolute()).then(|| UserAccount {
            name: text(fields[0]).to_owned(),
            home: home.to_owned(),
            shell: shell.into(),
        })
    })
}

/// Ensures that a folder exists, belongs to this user and is closed to others.
///
/// A folder named `acpd` is our own, so an open one is closed. Any other folder was chosen by the
/// user, so an open one is refused and not changed.
pub fn private_folder(folder: &Path) -> anyhow::Result<()> {
    let doing = || format!("cannot use the folder {}", folder.display());
    // A file may be in the place of the folder or of one above it.
    if let Some(file) = folder.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir()) {
        bail!("{} is a file, but acpd needs a folder there; move the file elsewhere", file.display());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(doing)?;
    let found = fs::metadata(folder).with_context(doing)?;
    let uid = rustix::process::getuid().as_raw();
    if found.uid() != uid {
        bail!("the folder {} belongs to user {}, not to user {uid}", folder.display(), found.uid());
    }
    if found.mode() & 0o077 == 0 {
        return Ok(());
    }
    if folder.file_name().is_some_and(|name| name == "acpd") {
        return fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).with_context(doing);
    }
    let path = folder.display();
    bail!("the folder {path} is open to other users; close it with: chmod 700 {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestSystem {
        variables: Vec<(&'static str, &'static str)>,
        ours: Vec<&'static str>,
        account: Option<&'static str>,
    }

    impl TestSystem {
        fn paths(&self, flag: Option<&str>) -> anyhow::Result<Paths> {
            let variable =
                |name: &str| self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
            let account = || self.account.map(PathBuf::from);
            let ours = |folder: &Path| self.ours.iter().any(|known| Path::new(known) == folder);
            Rules { variable: &variable, uid: 7, account: &account, ours: &ours }.apply(flag.map(Path::new))
        }

        fn socket(&self, flag: Option<&str>) -> String {
            self.paths(flag).unwrap().socket.display().to_string()
        }
    }

    fn full_environment() -> TestSystem {
        TestSystem {
            variables: vec![("HOME", "/h"), ("ACPD_SOCKET", "/s/x.sock"), ("XDG_RUNTIME_DIR", "/r")],
            ours: vec!["/r", "/run/user/7"],
            account: Some("/home/seven"),
        }
    }

    #[test]
    fn the_first_rule_that_names_a_socket_decides() {
        let mut system = full_environment();
        assert_eq!(system.socket(Some("/f/y.sock")), "/f/y.sock");
        assert_eq!(system.socket(None), "/s/x.sock");
        system.variables.remove(1);
        assert_eq!(system.socket(None), "/r/acpd/acpd.sock");
        system.ours.remove(0);
        assert_eq!(system.socket(None), "/run/user/7/acpd/acpd.sock");
        system.ours.clear();
        assert_eq!(system.socket(None), "/h/.local/state/acpd/acpd.sock");
        system.variables.clear();
        assert_eq!(system.socket(None), "/home/seven/.local/state/acpd/acpd.sock");
    }

    #[test]
    fn an_environment_with_only_path_is_enough() {
        let system = TestSystem { variables: vec![("PATH", "/bin")], ours: vec![], account: Some("/home/seven") };
        let expected = Paths {
            socket: "/home/seven/.local/state/acpd/acpd.sock".into(),
            state: "/home/seven/.local/state/acpd".into(),
            config: "/home/seven/.config/acpd/config.toml".into(),
            named_config: None,
            home: "/home/seven".into(),
            is_named: false,
        };
        assert_eq!(system.paths(None).unwrap(), expected);
    }

    #[test]
    fn relative_and_empty_variables_count_as_not_set() {
        let system = TestSystem {
            variables: vec![("HOME", ""), ("ACPD_SOCKET", ""), ("XDG_RUNTIME_DIR", "r"), ("XDG_STATE_HOME", "s")],
            ours: vec!["r"],
            account: Some("/home/seven"),
        };
        let paths = system.paths(None).unwrap();
        assert_eq!(paths.socket, Path::new("/home/seven/.local/state/acpd/acpd.sock"));
        assert_eq!(paths.state, Path::new("/home/seven/.local/state/acpd"));
    }

    #[test]
    fn a_relative_socket_in_the_environment_is_an_error() {
        let mut system = full_environment();
        system.variables[1] = ("ACPD_SOCKET", "x.sock");
        assert_eq!(system.paths(None).unwrap_err().to_string(), "ACPD_SOCKET must be an absolute path, not x.sock");
    }

    #[test]
    fn state_and_configuration_follow_their_variables() {
        let mut system = full_environment();
        system.variables.extend([("XDG_STATE_HOME", "/state"), ("XDG_CONFIG_HOME", "/etc/mine")]);
        let paths = system.paths(None).unwrap();
        assert_eq!(paths.state, Path::new("/state/acpd"));
        assert_eq!(paths.config, Path::new("/etc/mine/acpd/config.toml"));
        assert_eq!(paths.home, Path::new("/h"));
    }

    #[test]
    fn protected_paths_are_our_folders_or_single_files_elsewhere() {
        let mut paths = full_environment().paths(None).unwrap();
        paths.named_config = Some("/w/acpd.toml".into());
        let own: Vec<String> =
            paths.own_with(Some(Path::new("/home/seven"))).iter().map(|path| path.display().to_string()).collect();
        let expected = [
            "/h/.config/acpd",
            "/h/.local/state/acpd",
            "/home/seven/.config/acpd",
            "/home/seven/.local/state/acpd",
            "/s/x.sock",
            "/s/x.sock.lock",
            "/s/x.sock.start",
            "/w/acpd.toml",
        ];
        assert_eq!(own, expected);
        paths.socket = "/r/acpd/acpd.sock".into();
        assert!(paths.own().contains(&PathBuf::from("/r/acpd")));
    }

    #[test]
    fn the_default_folders_stay_protected_when_variables_name_others() {
        let mut system = full_environment();
        system.variables.extend([("XDG_STATE_HOME", "/state"), ("XDG_CONFIG_HOME", "/etc/mine")]);
        let own = system.paths(None).unwrap().own_with(None);
        for folder in ["/state/acpd", "/etc/mine/acpd", "/h/.local/state/acpd", "/h/.config/acpd"] {
            assert!(own.contains(&PathBuf::from(folder)), "{folder} is missing: {own:?}");
        }
    }

    #[test]
    fn links_are_resolved_as_far_as_a_path_exists() {
        let scratch = tempfile::tempdir().unwrap();
        let real = scratch.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        assert_eq!(resolve_links(&real.join("link/a/b")), real.join("a/b"));
        assert_eq!(resolve_links(&real.join("link")), real);
        assert_eq!(resolve_links(Path::new("/no such folder/x")), Path::new("/no such folder/x"));
    }

    #[test]
    fn a_missing_home_folder_is_an_error() {
        let system = TestSystem { variables: vec![], ours: vec![], account: None };
        assert!(system.paths(None).unwrap_err().to_string().starts_with("cannot find the home folder"));
    }

    #[test]
    fn the_password_database_is_read_by_user_number() {
        let database = b"root:x:0:0:root:/root:/bin/sh\nbroken\nseven:x:7:7::/home/seven:/bin/sh\n";
        assert_eq!(account_in(database, 7).map(|account| account.home), Some("/home/seven".into()));
        assert_eq!(account_in(database, 70).map(|account| account.home), None);
    }

    #[test]
    fn a_folder_of_ours_is_closed_and_a_foreign_one_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let own = scratch.path().join("deep/acpd");
        private_folder(&own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        private_folder(&own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);

        let open = scratch.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(private_folder(&open).unwrap_err().to_string().contains("chmod 700"));
        let file = scratch.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert!(private_folder(&file).unwrap_err().to_string().contains("is a file, but acpd needs a folder there"));
    }
}
