//! Inputs of the JIT benchmark, made once and kept: by the suites' generators where those lie
//! beside the project, else by our own of the same shape.

use crate::shell::{self, Context, Failure, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many objects and how many functions in each.
const OBJECTS: usize = 5000;
const FUNCTIONS: usize = 20;

/// How the objects call each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// `main` calls each object's first function; the objects do not know each other.
    Star,
    /// Each object's last function calls the next object's first.
    Chain,
}

/// A program that prints a line, compiled by the system's compiler.
pub(crate) fn hello(folder: &Path) -> Result<String> {
    fs::create_dir_all(folder)?;
    let (source, object) = (folder.join("hello.c"), folder.join("hello.o"));
    fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
    )?;
    shell::run(
        shell::command("cc")
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(&object),
    )?;
    Ok(object.display().to_string())
}

/// Thousands of small objects: a response file that names them.
pub(crate) fn small(folder: &Path, shape: Shape) -> Result<Vec<String>> {
    let list = folder.join("args");
    if !list.exists() {
        println!(
            "making {OBJECTS} objects in {} (about a minute)",
            folder.display()
        );
        if let Some(generator) = suite("jit_gen_small") {
            let mut command = shell::command(generator);
            command
                .arg(folder)
                .args([OBJECTS.to_string(), FUNCTIONS.to_string()]);
            if shape == Shape::Star {
                command.arg("star");
            }
            shell::run(&mut command)?;
        } else {
            own_small(folder, shape)?;
        }
    }
    Ok(vec![format!("@{}", list.display())])
}

/// The archives that the largest case links.
pub(crate) fn six() -> Result<Vec<PathBuf>> {
    [
        "clangAST",
        "clangSema",
        "LLVMAnalysis",
        "LLVMAMDGPUCodeGen",
        "clangCodeGen",
        "LLVMCodeGen",
    ]
    .iter()
    .map(|name| {
        let file = PathBuf::from(format!("/usr/lib/llvm-22/lib/lib{name}.a"));
        if file.exists() {
            return Ok(file);
        }
        Err(Failure::new(format!(
            "no {}: install llvm-22-dev and libclang-22-dev",
            file.display()
        )))
    })
    .collect()
}

/// One object that refers to a symbol of every member of the archives: the arguments that link it.
pub(crate) fn big(folder: &Path, archives: &[PathBuf]) -> Result<Vec<String>> {
    let list = folder.join("args");
    if !list.exists() {
        if let Some(generator) = suite("jit_gen_big") {
            shell::run(shell::command(generator).arg(folder).args(archives))?;
        } else {
            own_big(folder, archives)?;
        }
    }
    let text = fs::read_to_string(&list).context(list.display())?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn suite(name: &str) -> Option<PathBuf> {
    shell::suites_folder()
        .map(|folder| folder.join(name))
        .filter(|file| shell::is_executable(file))
}

fn own_small(folder: &Path, shape: Shape) -> Result {
    fs::create_dir_all(folder)?;
    let names: Vec<PathBuf> = (0..OBJECTS)
        .map(|i| folder.join(format!("o{i:05}.o")))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(object) = names.get(index) else {
                return Ok(());
            };
            let source = object.with_extension("s");
            fs::write(&source, object_text(index, OBJECTS, FUNCTIONS, shape))?;
            assemble(&source, object)?;
            fs::remove_file(&source)?;
        }
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|_| Err(Failure::new("a generating thread panicked")))
        })
    })?;
    let (source, main) = (folder.join("main.s"), folder.join("main.o"));
    fs::write(&source, main_text(OBJECTS, FUNCTIONS, shape))?;
    assemble(&source, &main)?;
    let mut list = format!("{}\n", main.display());
    for name in &names {
        let _ = writeln!(list, "{}", name.display());
    }
    fs::write(folder.join("args"), list)?;
    Ok(())
}

/// An object whose functions add to their argument, count themselves and call on.
fn object_text(index: usize, objects: usize, functions: usize, shape: Shape) -> String {
    let mut text = String::from("\t.text\n");
    for function in 0..functions {
        let on = if function + 1 < functions {
            Some((index, function + 1))
        } else if shape == Shape::Chain && index + 1 < objects {
            Some((index + 1, 0))
        } else {
            None
        };
        let name = format!("f_{index}_{function}");
        let _ = write!(
            text,
            "\t.globl {name}\n\t.p2align 4\n\t.type {name},@function\n{name}:\n\
             \taddl $1, g_{index}(%rip)\n\taddl ${}, %edi\n",
            function + 1
        );
        match on {
            Some((object, function)) => {
                let _ = writeln!(text, "\tjmp f_{object}_{function}@PLT");
            }
            None => text += "\tmovl %edi, %eax\n\tretq\n",
        }
        let _ = writeln!(text, "\t.size {name}, .-{name}");
    }
    let _ = write!(
        text,
        "\t.data\n\t.p2align 2\ng_{index}:\n\t.long 0\n\
         \t.section \".note.GNU-stack\",\"\",@progbits\n"
    );
    text
}

/// A `main` that answers 0 when every call took place.
fn main_text(objects: usize, functions: usize, shape: Shape) -> String {
    let per_object = functions * (functions + 1) / 2;
    let sum = (objects * per_object) & 0xffff_ffff;
    let mut text = String::from(
        "\t.text\n\t.globl main\n\t.type main,@function\nmain:\n\tpushq %rbx\n\txorl %eax, %eax\n",
    );
    let called = if shape == Shape::Star { objects } else { 1 };
    for index in 0..called {
        let _ = write!(text, "\tmovl %eax, %edi\n\tcallq f_{index}_0@PLT\n");
    }
    let _ = write!(
        text,
        "\tcmpl ${sum}, %eax\n\tsetne %al\n\tmovzbl %al, %eax\n\tpopq %rbx\n\tretq\n\
         \t.size main, .-main\n\t.section \".note.GNU-stack\",\"\",@progbits\n"
    );
    text
}

fn own_big(folder: &Path, archives: &[PathBuf]) -> Result {
    fs::create_dir_all(folder)?;
    let mut roots: Vec<String> = Vec::new();
    for archive in archives {
        let mut command: Command = shell::command(shell::llvm("llvm-nm"));
        command.args([
            "--defined-only",
            "--extern-only",
            "--format=posix",
            "--quiet",
        ]);
        let listing = shell::output(command.arg(archive))?;
        add_roots(&listing, &mut roots);
    }
    let mut text = String::from(
        "\t.text\n\t.globl main\n\t.type main,@function\nmain:\n\txorl %eax, %eax\n\tretq\n\
         \t.size main, .-main\n\t.globl jit_use_roots\njit_use_roots:\n\
         \tleaq jit_roots(%rip), %rax\n\tretq\n\
         \t.section .data.rel.roots,\"aw\",@progbits\n\t.globl jit_roots\n\t.p2align 3\n\
         jit_roots:\n",
    );
    for root in &roots {
        let _ = writeln!(text, "\t.quad \"{root}\"");
    }
    text += "\t.quad 0\n";
    let (source, object) = (folder.join("roots.s"), folder.join("roots.o"));
    fs::write(&source, text)?;
    assemble(&source, &object)?;

    let mut arguments = vec![object.display().to_string()];
    for archive in archives {
        let folder = archive.parent().unwrap_or(archive).display();
        let option = format!("-L{folder}");
        if !arguments.contains(&option) {
            arguments.push(option);
        }
    }
    for archive in archives {
        let name = archive.file_stem().unwrap_or_default().to_string_lossy();
        arguments.push(format!("-l{}", name.strip_prefix("lib").unwrap_or(&name)));
    }
    fs::write(folder.join("args"), arguments.join("\n") + "\n")?;
    println!("{} members in {} archives", roots.len(), archives.len());
    Ok(())
}

/// Takes the first strong symbol of each member that no earlier member gave.
fn add_roots(listing: &str, roots: &mut Vec<String>) {
    let mut taken = false;
    for line in listing.lines() {
        if line.ends_with("]:") || line.ends_with(".o:") {
            taken = false;
            continue;
        }
        let mut words = line.split_whitespace();
        let (Some(name), Some(kind)) = (words.next(), words.next()) else {
            continue;
        };
        let strong = matches!(kind, "T" | "D" | "R" | "B");
        if !taken && strong && !name.contains('$') && !roots.iter().any(|root| root == name) {
            roots.push(name.to_owned());
            taken = true;
        }
    }
}

fn assemble(source: &Path, object: &Path) -> Result {
    let mut command: Command = shell::command(shell::llvm("llvm-mc"));
    command.args(["-triple=x86_64-linux-gnu", "-filetype=obj", "-o"]);
    shell::run(command.arg(object).arg(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_and_star() {
        let last = object_text(1, 3, 2, Shape::Chain);
        assert!(
            last.contains("jmp f_1_1@PLT") && last.contains("jmp f_2_0@PLT"),
            "{last}"
        );
        let end = object_text(2, 3, 2, Shape::Chain);
        assert!(!end.contains("f_3_0") && end.contains("retq"), "{end}");
        let star = object_text(1, 3, 2, Shape::Star);
        assert!(!star.contains("f_2_0"), "{star}");
        let main = main_text(3, 2, Shape::Star);
        assert_eq!(main.matches("callq").count(), 3);
        assert!(main.contains("cmpl $9, %eax"), "{main}");
        assert_eq!(main_text(3, 2, Shape::Chain).matches("callq").count(), 1);
    }

    #[test]
    fn roots_are_one_a_member() {
        let listing = "lib.a[a.o]:\nw W 0 1\nf T 0 1\ng T 0 1\n\nlib.a[b.o]:\nf T 0 1\nx$y T 0 1\n\
                       h D 0 1\nlib.a[c.o]:\n";
        let mut roots = Vec::new();
        add_roots(listing, &mut roots);
        assert_eq!(roots, ["f", "h"]);
    }
}
