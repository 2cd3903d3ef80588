"""`Field`, the descriptor that declares a field and, on the class, is what queries compare.

On an instance it is never in the way: it defines no `__set__` at run time, so values are plain entries of the
instance's dict and reading one is a native attribute lookup. Type checkers see the value on instances and an
expression on classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final, overload

from ontologia.model.codec import Codec
from ontologia.model.spec import FieldSpec, TypeSpec

if TYPE_CHECKING:
    from ontologia.query.expr import FieldExpr

T = TypeVar("T")


@final
class _Missing:
    """The absence of a default, which None is not."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

ExpressionFactory = Callable[[TypeSpec, FieldSpec, Codec | None], Any]
_factory: list[ExpressionFactory] = []


def register_expression(factory: ExpressionFactory) -> None:
    """Say how a class-level field becomes a query expression; `ontologia.query` calls this."""
    _factory[:] = [factory]


def _expression_factory() -> ExpressionFactory:
    if not _factory:
        # The one place where the model looks upwards: `Customer.tier` must be an expression without the model knowing
        # what expressions are, and importing here keeps the import order of the packages one-way.
        from ontologia.query.expr import field_expression

        register_expression(field_expression)
    return _factory[0]


class Field(Generic[T]):
    """Declares a field: `name: Field[str]`, or with options `id: Field[str] = Field(primary_key=True)`."""

    __slots__ = ("_bound", "_expression", "default", "default_factory", "index", "instance_key", "name", "primary_key")

    def __init__(
        self,
        *,
        primary_key: bool = False,
        instance_key: bool = False,
        default: T = cast("Any", MISSING),  # noqa: B008 - a constant, and None must stay a possible default
        default_factory: Callable[[], T] | None = None,
        index: bool = False,
    ) -> None:
        if default is not MISSING and default_factory is not None:
            raise TypeError("Field(): give either default or default_factory, not both.")
        if default_factory is not None and not callable(default_factory):
            raise TypeError("Field(): default_factory must be callable.")
        self.primary_key = primary_key
        self.instance_key = instance_key
        self.default = default
        self.default_factory = default_factory
        self.index = index
        self.name = ""
        self._bound: tuple[TypeSpec, FieldSpec, Codec | None] | None = None
        self._expression: Any = None

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Any]) -> FieldExpr[T]: ...
        @overload
        def __get__(self, instance: object, owner: type[Any]) -> T: ...
        def __get__(self, instance: object | None, owner: type[Any]) -> FieldExpr[T] | T: ...
        def __set__(self, instance: object, value: T) -> None: ...

    else:

        def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
            if instance is not None:
                raise AttributeError(f"{type(instance).__name__!r} object has no value for {self.name!r}")
            if self._bound is None:
                return self
            if self._expression is None:
                self._expression = _expression_factory()(*self._bound)
            return self._expression

    def bound(self, spec: TypeSpec, field: FieldSpec, codec: Codec | None) -> Field[T]:
        """The same declaration as a part of a finished class."""
        copy = Field[T](
            primary_key=self.primary_key,
            instance_key=self.instance_key,
            default=self.default,
            default_factory=self.default_factory,
            index=self.index,
        )
        copy.name = field.name
        copy._bound = (spec, field, codec)
        return copy

    def __repr__(self) -> str:
        options = [flag for flag in ("primary_key", "instance_key", "index") if getattr(self, flag)]
        shown = [f"{flag}=True" for flag in options]
        if self.default is not MISSING:
            shown.append(f"default={self.default!r}")
        if self.default_factory is not None:
            shown.append(f"default_factory={getattr(self.default_factory, '__name__', self.default_factory)!s}")
        return f"Field({', '.join(shown)})"
