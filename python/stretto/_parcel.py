"""What it takes to call a function in another process: of a script, a notebook or a prompt, too. Knows no Torch.

A function that another process can import goes by its name. One of `__main__` goes as its code object: another process
runs neither the script nor the cells again. With it goes what it uses of the globals of `__main__`: modules by name,
functions as their code, classes and decorated functions as the code of their definition, all else by pickle, in one
piece, so that a model and the optimizer over it still belong together there. A closure is refused: what it has captured
is not its own.
"""

from __future__ import annotations

import __future__

import ast
import builtins
import dis
import importlib
import inspect
import io
import linecache
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from stretto._errors import UsageError

# Code of these is run where it stands, in the code around.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class _Import(NamedTuple):
    module: str


class _Bind(NamedTuple):
    """A global that a definition needs where it stands."""

    name: str
    value: bytes


class _Function(NamedTuple):
    key: int
    module: str
    code: bytes
    name: str
    qualname: str
    rest: bytes  # defaults, defaults of keywords, attributes


class _Definition(NamedTuple):
    """A statement, which binds a name."""

    key: int
    name: str
    code: bytes


class _Parcel(NamedTuple):
    steps: list[_Import | _Bind | _Function | _Definition]
    sources: dict[str, tuple[int, None, list[str], str]]  # as linecache has them: for tracebacks
    content: bytes  # the other globals, the function, its arguments


def pack(fn: Callable[..., Any], args: Sequence[Any]) -> bytes:
    """The call `fn(…, *args)`, for unpack() in a process that runs the same Python. Raises UsageError, which names what
    cannot go there.
    """
    return pickle.dumps(_Packer(name_of(fn)).pack(fn, tuple(args)))


def unpack(parcel: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function and its arguments. Binds in `__main__` what they need."""
    return _Unpacker().unpack(pickle.loads(parcel))


def name_of(fn: Callable[..., Any]) -> str:
    """What to call a function by in a message."""
    return str(getattr(fn, "__qualname__", None) or repr(fn))


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, packer: _Packer) -> None:
        super().__init__(file)
        self._packer = packer

    def persistent_id(self, obj: Any) -> Any:
        return self._packer.id_of(obj)


class _Packer:
    def __init__(self, caller: str) -> None:
        self._caller = caller
        self._main = sys.modules["__main__"].__dict__
        self._steps: list[_Import | _Bind | _Function | _Definition] = []
        self._sources: dict[str, tuple[int, None, list[str], str]] = {}
        self._keys: dict[int, int] = {}  # by id
        self._keyed: list[Any] = []  # kept, so that no other object gets the same id
        self._codes: dict[int, types.CodeType] = {}  # by key: those of `__main__`
        self._followed: dict[int, bool] = {}  # by key: what its functions use goes along; True: before them
        self._at_once = False
        self._bound: set[str] = set()
        self._late: dict[str, Any] = {}  # globals that are needed when a function is called

    def pack(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> _Parcel:
        self._pickled(fn, "the function")
        for i, argument in enumerate(args):
            self._pickled(argument, f"argument {i}")
        tried: set[str] = set()
        while tried != set(self._late):  # a value may be of a class whose methods use more
            for name in set(self._late) - tried:
                tried.add(name)
                self._pickled(self._late[name], f"the global {name}")
        content = self._pickled((self._late, fn, args), "the call")
        return _Parcel(self._steps, self._sources, content)

    def id_of(self, obj: Any) -> Any:
        """What stands for an object that pickle cannot send, or would send as a name that is not there."""
        if isinstance(obj, types.ModuleType):
            return ("module", obj.__name__)
        if isinstance(obj, type):
            return ("made", self._class(obj)) if obj.__module__ == "__main__" else None
        if isinstance(obj, types.FunctionType) or "__wrapped__" in getattr(obj, "__dict__", ()):
            if getattr(obj, "__module__", None) == "__main__" or "<" in getattr(obj, "__qualname__", ""):
                return ("made", self._function(obj))
        return None

    def _pickled(self, value: Any, what: str) -> bytes:
        stream = io.BytesIO()
        try:
            _Pickler(stream, self).dump(value)
        except UsageError:
            raise
        except Exception as error:  # pickle raises what it likes
            raise UsageError(
                f"spawn({self._caller}): {what} cannot go to another process ({type(error).__name__}: {error}): "
                "expected what pickle takes, or that the function makes it itself"
            ) from error
        return stream.getvalue()

    def _function(self, fn: Any) -> int:
        known = self._keys.get(id(fn))
        if known is not None:
            return self._with_globals(known)
        local = "<locals>" in fn.__qualname__
        if hasattr(fn, "__wrapped__") and not local:
            return self._definition(fn, inspect.unwrap(fn).__code__, "decorated function")
        code = fn.__code__
        if code.co_freevars:
            raise UsageError(
                f"spawn({self._caller}): {fn.__qualname__} is a closure over {', '.join(code.co_freevars)}: expected a "
                "function that takes these as arguments"
            )
        key = self._new_key(fn)
        rest = self._pickled((fn.__defaults__, fn.__kwdefaults__, fn.__dict__), f"a default of {fn.__qualname__}")
        self._remember_source(code.co_filename)
        self._steps.append(
            _Function(key, fn.__module__, marshal.dumps(code), fn.__name__, fn.__qualname__, rest)
        )
        if fn.__module__ == "__main__":
            self._codes[key] = code
        return self._with_globals(key)

    def _class(self, cls: type) -> int:
        known = self._keys.get(id(cls))
        if known is not None:
            return self._with_globals(known)
        if "<locals>" in cls.__qualname__:
            raise UsageError(
                f"spawn({self._caller}): the class {cls.__qualname__} is defined in a function: expected one of a "
                "module, a script or a cell"
            )
        return self._definition(cls, _code_within(cls), "class")

    def _definition(self, obj: Any, within: types.CodeType | None, kind: str) -> int:
        """The statement that has made a class or a decorated function: it is run again."""
        name = obj.__qualname__.split(".")[0]
        outer = self._main.get(name, obj)
        if outer is not obj and isinstance(outer, type) and obj.__qualname__ != name:
            self._class(outer)  # a class within a class
            key = self._new_key(obj)
            self._steps.append(_Definition(key, obj.__qualname__, marshal.dumps(compile("", "", "exec"))))
            return key
        found = _find_statement(name, within, decorated=not isinstance(obj, type))
        if found is None:
            raise UsageError(
                f"spawn({self._caller}): there is no source of the {kind} {obj.__qualname__}: expected its definition "
                "in a file, or in a cell of a notebook"
            )
        key = self._new_key(obj)
        self._bound.add(name)
        self._remember_source(found.co_filename)
        self._use(_globals_at_once(found), _attributes(found), at_once=True)
        self._steps.append(_Definition(key, name, marshal.dumps(found)))
        self._codes[key] = found
        return self._with_globals(key)

    def _new_key(self, obj: Any) -> int:
        self._keyed.append(obj)
        return self._keys.setdefault(id(obj), len(self._keys))

    def _with_globals(self, key: int) -> int:
        """Sends along the globals that functions of this code use: before a definition that may call them, or else
        with the call.
        """
        code = self._codes.get(key)
        followed = self._followed.get(key)
        if code is not None and followed is not True and followed is not self._at_once:
            self._followed[key] = self._at_once
            self._use(_globals(code), _attributes(code), self._at_once)
        return key

    def _use(self, names: list[str], attributes: set[str], at_once: bool) -> None:
        before, self._at_once = self._at_once, at_once
        for name in names:
            if name in self._bound or name not in self._main or name in self._late and not at_once:
                continue
            value = self._main[name]
            if isinstance(value, types.ModuleType):
                self._import(value.__name__, attributes)
            if at_once:
                self._bound.add(name)
                self._steps.append(_Bind(name, self._pickled(value, f"the global {name}")))
            else:
                self._late[name] = value
        self._at_once = before

    def _import(self, module: str, attributes: set[str]) -> None:
        self._steps.append(_Import(module))
        for attribute in attributes:
            if f"{module}.{attribute}" in sys.modules:
                self._import(f"{module}.{attribute}", attributes)

    def _remember_source(self, file: str) -> None:
        lines = linecache.getlines(file)
        if lines:
            self._sources[file] = (sum(map(len, lines)), None, lines, file)


def _loads(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
            yield str(instruction.argval)


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def _globals(code: types.CodeType) -> list[str]:
    """Names that the code, or code in it, looks up among the globals."""
    names = dict.fromkeys(_loads(code))
    for inner in _inner(code):
        names.update(dict.fromkeys(_globals(inner)))
    return list(names)


def _globals_at_once(code: types.CodeType) -> list[str]:
    """Those that are looked up when the code itself is run: not in functions that it defines."""
    names = dict.fromkeys(_loads(code))
    for inner in _inner(code):
        if not inner.co_flags & inspect.CO_OPTIMIZED or inner.co_name in _COMPREHENSIONS:
            names.update(dict.fromkeys(_globals_at_once(inner)))
    return list(names)


def _attributes(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*map(_attributes, _inner(code)))


def _code_within(cls: type) -> types.CodeType | None:
    """That of a method, which says where the class stands."""
    for value in vars(cls).values():
        function = inspect.unwrap(getattr(value, "__func__", None) or getattr(value, "fget", None) or value)
        code = getattr(function, "__code__", None)
        own = str(getattr(function, "__qualname__", "")).startswith(cls.__qualname__ + ".")
        if isinstance(code, types.CodeType) and own and linecache.getlines(code.co_filename):
            return code
    return None


def _find_statement(name: str, within: types.CodeType | None, decorated: bool) -> types.CodeType | None:
    """The statement outside of functions that defines `name`, in the file of `within`, around it."""
    if within is not None:
        files = [within.co_filename]
    else:  # the script, or else the latest cell that has it
        script = getattr(sys.modules["__main__"], "__file__", None)
        files = [script] if script else []
        files += [file for file, entry in reversed(linecache.cache.items()) if len(entry) == 4 and entry[1] is None]
    future = (within.co_flags if within is not None else 0) & _FUTURES
    for file in files:
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:
            continue
        found = None
        for statement in _statements(tree.body):
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                for feature in statement.names:
                    future |= getattr(__future__, feature.name).compiler_flag
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            first = min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
            around = within is None or first <= within.co_firstlineno <= (statement.end_lineno or first)
            if statement.name == name and around and (statement.decorator_list or not decorated):
                found = statement
        if found is not None:
            code: types.CodeType = compile(ast.Module([found], []), file, "exec", flags=future, dont_inherit=True)
            return code
    return None


_FUTURES = __future__.annotations.compiler_flag


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _statements(statement.body)
            yield from _statements(getattr(statement, "orelse", []))


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, made: dict[int, Any]) -> None:
        super().__init__(io.BytesIO(content))
        self._made = made

    def persistent_load(self, pid: Any) -> Any:
        kind, which = pid
        return importlib.import_module(which) if kind == "module" else self._made[which]


class _Unpacker:
    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._main = sys.modules["__main__"].__dict__

    def unpack(self, parcel: _Parcel) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        linecache.cache.update(parcel.sources)
        for step in parcel.steps:
            if isinstance(step, _Import):
                importlib.import_module(step.module)
            elif isinstance(step, _Bind):
                self._main[step.name] = self._load(step.value)
            elif isinstance(step, _Function):
                self._made[step.key] = self._function(step)
            else:
                exec(marshal.loads(step.code), self._main)
                first, *inner = step.name.split(".")
                made = self._main[first]
                for name in inner:
                    made = getattr(made, name)
                self._made[step.key] = made
        late, fn, args = self._load(parcel.content)
        self._main.update(late)
        return fn, args

    def _load(self, content: bytes) -> Any:
        return _Unpickler(content, self._made).load()

    def _function(self, step: _Function) -> types.FunctionType:
        main = step.module == "__main__"
        namespace = self._main if main else importlib.import_module(step.module).__dict__
        namespace.setdefault("__builtins__", builtins)
        defaults, keywords, attributes = self._load(step.rest)
        made = types.FunctionType(marshal.loads(step.code), namespace, step.name, defaults)
        made.__kwdefaults__ = keywords
        made.__qualname__ = step.qualname
        made.__dict__.update(attributes)
        return made
