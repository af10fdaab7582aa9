package merchant

// fault is an error of Payme's protocol (developer.help.paycom.uz, oshibki-errors).
type fault struct {
	Code    int     `json:"code"`
	Message message `json:"message"`
	// Data is the field of the account that the error is about.
	Data string `json:"data,omitempty"`
}

// message is what Payme may show to the payer.
type message struct {
	RU string `json:"ru"`
	UZ string `json:"uz"`
	EN string `json:"en"`
}

func (f fault) about(field string) *fault {
	f.Data = field
	return &f
}

// codeOrder is the error of every order that cannot be paid. Payme leaves -31050 to
// -31099 to the shop; its own template answers all with the first, and so another
// transaction of an order that can be paid once, too (a community text has -31008).
const codeOrder = -31050

var (
	faultMethod = &fault{Code: -32300, Message: message{
		"Запрос должен быть отправлен методом POST", "So‘rov POST usulida yuborilishi kerak", "The request must be a POST"}}
	faultJSON = &fault{Code: -32700, Message: message{
		"Не удалось разобрать JSON", "JSON o‘qib bo‘lmadi", "The JSON cannot be parsed"}}
	faultCall = &fault{Code: -32600, Message: message{
		"В запросе отсутствуют обязательные поля или их тип неверен", "So‘rovda majburiy maydonlar yo‘q yoki turi noto‘g‘ri",
		"Fields of the request are missing or of a wrong type"}}
	faultUnknown = &fault{Code: -32601, Message: message{
		"Метод не найден", "Usul topilmadi", "No such method"}}
	faultAuth = &fault{Code: -32504, Message: message{
		"Недостаточно привилегий для выполнения метода", "Usulni bajarish uchun huquq yetarli emas", "Not allowed to call this method"}}
	faultSystem = &fault{Code: -32400, Message: message{
		"Системная ошибка. Повторите запрос позже", "Tizim xatosi. Keyinroq qayta urinib ko‘ring", "System error. Try again later"}}
	faultAmount = &fault{Code: -31001, Message: message{
		"Неверная сумма", "Summa noto‘g‘ri", "Wrong amount"}}
	faultNotFound = &fault{Code: -31003, Message: message{
		"Транзакция не найдена", "Tranzaksiya topilmadi", "No such transaction"}}
	faultPerform = &fault{Code: -31008, Message: message{
		"Невозможно выполнить операцию", "Amalni bajarib bo‘lmaydi", "The operation cannot be performed"}}

	faultNoOrder = fault{Code: codeOrder, Message: message{
		"Заказ не найден", "Buyurtma topilmadi", "No such order"}}
	faultSettled = fault{Code: codeOrder, Message: message{
		"Заказ уже оплачен или отменён", "Buyurtma to‘langan yoki bekor qilingan", "The order is paid or cancelled already"}}
	faultReserved = fault{Code: codeOrder, Message: message{
		"Заказ ожидает другой оплаты", "Buyurtma boshqa to‘lovni kutmoqda", "The order awaits another payment"}}
)
