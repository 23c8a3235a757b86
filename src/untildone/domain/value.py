"""`dataclass` for values, made with less work: a run needs a hundred of them before its first step.

The standard decorator compiles six functions for every frozen class. Here only `__init__` is
compiled, with the first value that is made, and the rest is shared; that nobody assigns to a
value is checked by mypy.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from dataclasses import MISSING, fields
    from dataclasses import dataclass as _standard

    def dataclass(*, frozen=False, slots=False):
        """A class of values if frozen, else a class of the standard kind."""

        def made(cls):
            if not (frozen and slots):
                return _standard(frozen=frozen, slots=slots)(cls)
            value = _standard(slots=True, eq=False, repr=False, init=False)(cls)
            value.__init__ = _compiled_later(value)
            for shared in (__eq__, __hash__, __repr__):
                if shared.__name__ not in cls.__dict__:
                    setattr(value, shared.__name__, shared)
            return value

        return made

    def _compiled_later(cls):
        def __init__(self, *args, **kwargs):  # noqa: N807
            cls.__init__ = _init(cls)
            cls.__init__(self, *args, **kwargs)

        return __init__

    def _init(cls):
        names, lines, known = ["self"], ["pass"], {}
        for field in (field for field in fields(cls) if field.init):
            name, value = field.name, field.name
            if field.default_factory is not MISSING:
                known[f"_new_{name}"], known["_MISSING"] = field.default_factory, MISSING
                names.append(f"{name}=_MISSING")
                value = f"_new_{name}() if {name} is _MISSING else {name}"
            elif field.default is not MISSING:
                known[f"_{name}"] = field.default
                names.append(f"{name}=_{name}")
            else:
                names.append(name)
            lines.append(f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        made = {}
        exec(f"def __init__({', '.join(names)}):\n " + "\n ".join(lines), known, made)  # noqa: S102
        return made["__init__"]

    def __eq__(self, other):  # noqa: N807 - shared by the classes
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self):  # noqa: N807
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __repr__(self):  # noqa: N807
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.__class__.__qualname__}({shown})"


__all__ = ["dataclass"]
