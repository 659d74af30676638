"""A crate of Rust around a library: declarations, and a build script that compiles its runtime in C."""

from __future__ import annotations

from math import prod
from typing import Final

from runtime.ahead.library import Library
from runtime.ahead.texts import NO_NAMES, SOURCES, parameters_of

TYPES: Final = {
    "uint8_t": "u8",
    "uint16_t": "u16",
    "int32_t": "i32",
    "int64_t": "i64",
    "float": "f32",
    "double": "f64",
}
"""Types of Rust by type of C."""


def crate_of(library: Library) -> dict[str, str]:
    """Return the files of the crate by path."""
    return {"Cargo.toml": _manifest(library), "build.rs": _build_script(library), "src/lib.rs": _source(library)}


def _manifest(library: Library) -> str:
    return "\n".join(
        [
            "[package]",
            f'name = "{library.name}"',
            'version = "1.0.0"',
            'edition = "2021"',
            'build = "build.rs"',
            f'links = "{library.name}"',
            "",
            "[workspace]",
            "",
        ]
    )


def _build_script(library: Library) -> str:
    sources = [*SOURCES, *(["prograd_threads.c"] if library.threads > 1 else [])]
    listed = ", ".join(f'"{source}"' for source in sources)
    pthread = '    println!("cargo:rustc-link-lib=pthread");\n' if library.threads > 1 else ""
    return f"""// Compiles the runtime in C by `cc`, or by the compiler that CC names, and links the library.
use std::{{env, path::PathBuf, process::Command}};

fn main() {{
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("..");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let compiler = env::var("CC").unwrap_or("cc".into());
    let mut archive = Command::new("ar");
    archive.arg("crs").arg(out.join("libprograd_host.a"));
    for source in [{listed}] {{
        let object = out.join(source).with_extension("o");
        let status = Command::new(&compiler)
            .args(["-O2", "-fPIC", "-c"])
            .arg(folder.join(source))
            .arg("-o")
            .arg(&object)
            .status()
            .expect("a C compiler");
        assert!(status.success(), "{{source}} does not compile");
        archive.arg(object);
        println!("cargo:rerun-if-changed={{}}", folder.join(source).display());
    }}
    assert!(archive.status().expect("ar").success());
    println!("cargo:rustc-link-search=native={{}}", out.display());
    println!("cargo:rustc-link-search=native={{}}", folder.display());
    println!("cargo:rustc-link-lib=static={library.name}");
    println!("cargo:rustc-link-lib=static=prograd_host");
{pthread}}}
"""


def _source(library: Library) -> str:
    name = library.name
    lines = [
        f"//! The functions of {name}.h, and `Net`, an instance that owns its memory.",
        "#![allow(clippy::too_many_arguments)]",
        "use std::ffi::{c_char, c_int, c_void, CStr, CString};",
        "",
        f"pub const MEMORY_BYTES: usize = {library.memory_bytes};",
        "",
        'extern "C" {',
        f"    fn {name}_open(net: *mut *mut c_void, states: *const c_char, memory: *mut c_void) -> c_int;",
        f"    fn {name}_load(net: *mut c_void, path: *const c_char) -> c_int;",
        f"    fn {name}_save(net: *mut c_void, path: *const c_char) -> c_int;",
        f"    fn {name}_set(net: *mut c_void, state: *const c_char, elements: *const c_void, bytes: usize) -> c_int;",
        f"    fn {name}_state_sha256(net: *const c_void, digits: *mut c_char);",
        f"    fn {name}_error(net: *const c_void) -> *const c_char;",
    ]
    methods: list[str] = []
    for function in library.functions:
        parameters = parameters_of(function)
        declared = "".join(f", {p.name}_: *{'const' if p.is_fed else 'mut'} {TYPES[p.c_type]}" for p in parameters)
        lines.append(f"    fn {function.name}(net: *mut c_void{declared}) -> c_int;")
        taken = ""
        for each in parameters:
            count = max(prod(each.type.static_shape), 1)
            array = f"[{TYPES[each.c_type]}; {count}]"
            taken += f", {each.name}_: {f'&{array}' if each.is_fed else f'Option<&mut {array}>'}"
        passed = "".join(
            f", {p.name}_.as_ptr()" if p.is_fed else f", {p.name}_.map_or(std::ptr::null_mut(), |x| x.as_mut_ptr())"
            for p in parameters
        )
        short = function.method + "_" * (function.method in NO_NAMES)
        methods += [
            "",
            f"    /// A step of {function.bound.name} for {function.bound.rows} rows.",
            f"    pub fn {short}(&mut self{taken}) -> Result<(), String> {{",
            f"        let code = unsafe {{ {function.name}(self.net{passed}) }};",
            "        self.checked(code)",
            "    }",
        ]
    lines += [
        "}",
        "",
        "/// An instance: states and working memory.",
        "pub struct Net {",
        "    net: *mut c_void,",
        "    _memory: Vec<u64>,",
        "}",
        "",
        "unsafe impl Send for Net {}",
        "",
        "impl Net {",
        "    /// Begin with the states of a file.",
        "    pub fn open(states: &str) -> Result<Net, String> {",
        "        let mut memory = vec![0u64; MEMORY_BYTES / 8 + 1];",
        "        let path = CString::new(states).map_err(|e| e.to_string())?;",
        "        let mut net = std::ptr::null_mut();",
        f"        let code = unsafe {{ {name}_open(&mut net, path.as_ptr(), memory.as_mut_ptr().cast()) }};",
        "        let net = Net { net, _memory: memory };",
        "        net.checked(code)?;",
        "        Ok(net)",
        "    }",
        "",
        "    fn checked(&self, code: c_int) -> Result<(), String> {",
        "        if code == 0 {",
        "            return Ok(());",
        "        }",
        f"        let why = unsafe {{ CStr::from_ptr({name}_error(self.net)) }};",
        "        Err(why.to_string_lossy().into_owned())",
        "    }",
        "",
        "    pub fn load(&mut self, path: &str) -> Result<(), String> {",
        "        let path = CString::new(path).map_err(|e| e.to_string())?;",
        f"        self.checked(unsafe {{ {name}_load(self.net, path.as_ptr()) }})",
        "    }",
        "",
        "    pub fn save(&mut self, path: &str) -> Result<(), String> {",
        "        let path = CString::new(path).map_err(|e| e.to_string())?;",
        f"        self.checked(unsafe {{ {name}_save(self.net, path.as_ptr()) }})",
        "    }",
        "",
        '    /// Set a state such as "total_steps" by its elements.',
        "    pub fn set<T: Copy>(&mut self, state: &str, elements: &[T]) -> Result<(), String> {",
        "        let state = CString::new(state).map_err(|e| e.to_string())?;",
        "        let bytes = std::mem::size_of_val(elements);",
        f"        let code = unsafe {{ {name}_set(self.net, state.as_ptr(), elements.as_ptr().cast(), bytes) }};",
        "        self.checked(code)",
        "    }",
        "",
        "    /// The hash of all states, as `runtime execute` prints it.",
        "    pub fn state_sha256(&self) -> String {",
        "        let mut digits = [0 as c_char; 65];",
        f"        unsafe {{ {name}_state_sha256(self.net, digits.as_mut_ptr()) }};",
        "        unsafe { CStr::from_ptr(digits.as_ptr()) }.to_string_lossy().into_owned()",
        "    }",
        *methods,
        "}",
        "",
    ]
    return "\n".join(lines)
