//! Opening and closing dylibs.

use super::{add, dylib, object, session};
use crate::support::{self, Folder, have, int};
use clinch_jit::session::{Dylib, Match, Session};

#[test]
#[expect(unsafe_code, reason = "runs linked code")]
fn initializers_in_order_of_dependence_and_again() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let (user, said) = logging_dylibs(&session, &folder);
    for _ in 0..2 {
        // SAFETY: the objects are fit to run here.
        unsafe { user.open() }.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(int(support::call(said)), 12);
        // Once more: open already.
        // SAFETY: as above.
        unsafe { user.open() }.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(int(support::call(said)), 0);
        // SAFETY: as above.
        assert_eq!(unsafe { user.close() }, Ok(true));
        assert_eq!(int(support::call(said)), 0);
        // Handlers before finalizers, users before what they use.
        // SAFETY: as above.
        assert_eq!(unsafe { user.close() }, Ok(true));
        assert_eq!(int(support::call(said)), 6789);
        // SAFETY: as above.
        assert_eq!(unsafe { user.close() }, Ok(false));
    }
}

/// A dylib that looks into another one, both of which log when they begin and end: the dylib, and the
/// function that answers what was logged since it was called last, as digits.
pub(crate) fn logging_dylibs(session: &Session, folder: &Folder) -> (Dylib, u64) {
    let (log, base, user) = (
        dylib(session, "log"),
        dylib(session, "base"),
        dylib(session, "user"),
    );
    let seen = |it: &Dylib| (it.id(), Match::Exported);
    let own = |it: &Dylib| (it.id(), Match::All);
    base.set_link_order(&[own(&base), seen(&log)]);
    user.set_link_order(&[own(&user), seen(&base), seen(&log)]);
    let source = "static int n; static char text[100];
                  void say(char c) { text[n++] = c; }
                  int said(void) { int sum = 0; for (int i = 0; i < n; i++)
                      sum = sum * 10 + (text[i] - '0'); n = 0; return sum; }";
    add(&log, vec![object(folder, "log", source)]);
    let part = |first: char, last: char, handler: char| {
        format!(
            "void say(char c);
             extern int atexit(void (*)(void));
             static void at_end(void) {{ say('{handler}'); }}
             __attribute__((constructor)) static void begin(void) {{
                 say('{first}'); atexit(at_end);
             }}
             __attribute__((destructor)) static void end(void) {{ say('{last}'); }}
             int part_{first}(void) {{ return 1; }}"
        )
    };
    add(&base, vec![object(folder, "base", &part('1', '9', '8'))]);
    add(&user, vec![object(folder, "user", &part('2', '7', '6'))]);
    let said = log
        .look_up("said")
        .unwrap_or_else(|error| panic!("{error}"));
    (user, said)
}

/// Linked code opens a dylib by name, calls into it and closes it, and is told what went wrong.
#[test]
fn linked_code_opens_dylibs() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let (main, plugin) = (dylib(&session, "main"), dylib(&session, "plugin"));
    let broken = dylib(&session, "broken");
    let source = "static int ready;
                  __attribute__((constructor)) static void begin(void) { ready = 10; }
                  __attribute__((destructor)) static void end(void) { ready = 0; }
                  int run(int n) { return ready + n; }";
    add(&plugin, vec![object(&folder, "plugin", source)]);
    let source = "int nowhere(void); int f(void) { return nowhere(); }";
    add(&broken, vec![object(&folder, "broken", source)]);
    let user = "
        #include <string.h>
        extern char __clinch_session[];
        void *clinch_dlopen(void *session, const char *name, int mode);
        void *clinch_dlsym(void *session, void *handle, const char *name);
        int clinch_dlclose(void *session, void *handle);
        const char *clinch_dlerror(void *session);
        static void *s = __clinch_session;
        int good(void) {
            void *handle = clinch_dlopen(s, \"plugin\", 0);
            if (!handle || clinch_dlerror(s)) return -1;
            int (*run)(int) = (int (*)(int))clinch_dlsym(s, handle, \"run\");
            if (!run) return -2;
            int answer = run(5);
            if (clinch_dlclose(s, handle)) return -3;
            return answer * 100 + run(5);
        }
        int bad(void) {
            if (clinch_dlopen(s, \"nothing\", 0)) return 1;
            const char *error = clinch_dlerror(s);
            if (!error || strcmp(error, \"nothing: the session has no dylib of this name\")) return 2;
            if (clinch_dlerror(s)) return 3;
            if (clinch_dlopen(s, \"broken\", 0)) return 4;
            error = clinch_dlerror(s);
            if (!error || strcmp(error, \"broken: undefined symbol: nowhere\")) return 5;
            if (clinch_dlclose(s, (void *)77) != -1) return 6;
            void *handle = clinch_dlopen(s, \"plugin\", 0);
            if (clinch_dlsym(s, handle, \"missing\")) return 7;
            error = clinch_dlerror(s);
            if (!error || strcmp(error, \"Symbols not found: [ missing ]\")) return 8;
            return clinch_dlclose(s, handle);
        }";
    add(&main, vec![object(&folder, "user", user)]);
    for _ in 0..2 {
        assert_eq!(super::call(&main, "good"), 1505);
        assert_eq!(super::call(&main, "bad"), 0);
    }
}
