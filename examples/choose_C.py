"""How much should an error cost? C by cross-validation, in one fit.

The labels are the seven segments of a digit display, the rows pictures of handwritten digits. `M3LClassifierCV` fits
every fold for all values of C, each from the solution of the value before, and keeps the C with the best micro-F1 on
the rows held out.

    python examples/choose_C.py
"""

from sklearn.model_selection import train_test_split

from comargin import M3LClassifier, M3LClassifierCV
from comargin.data import load
from comargin.metrics import micro_f1

digits = load("digits")
X_train, X_test, Y_train, Y_test = train_test_split(digits.X / 16, digits.Y, train_size=600, random_state=0)

model = M3LClassifierCV(Cs=10, cv=5, random_state=0, n_jobs=2).fit(X_train, Y_train)

print(f"{'C':>9}{'micro-F1 of five folds':>26}")
for C, mean, deviation in zip(model.Cs_, model.scores_.mean(axis=0), model.scores_.std(axis=0), strict=True):
    print(f"{C:9.3g}{mean:17.3f} +- {deviation:.3f}{'   <- best' if C == model.C_ else ''}")

print(f"\nfitted on all training rows with C = {model.C_:g}: duality gap {model.duality_gap_ / model.objective_:.1e}")
print("\nmicro-F1 on test rows")
for C in (model.Cs_[0], model.C_, model.Cs_[-1]):
    plain = M3LClassifier(C=C, random_state=0).fit(X_train, Y_train)
    print(f"  C = {C:<10.3g}{micro_f1(Y_test, plain.predict(X_test)):.3f}")
print(f"  chosen        {model.score(X_test, Y_test):.3f}   (model.score is the measure C was chosen by)")
